package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/reasons"
)

// errorDomain is the domain of google.rpc.ErrorInfo.
const errorDomain = "qosproxy"

// reasonKey is the metadata key of google.rpc.ErrorInfo for a word of qosproxy.v1.Reason.
const reasonKey = "reason"

// maxDetailBytes bounds the response in the details of an error. Details travel in a header.
// Many clients refuse more than 8 KiB of headers, and then report that instead of our error.
const maxDetailBytes = 4 << 10

// grpcError returns the status of a request that is refused as a whole.
func grpcError(ctx context.Context, err error) error {
	if failed, ok := errors.AsType[*incident.Error](err); ok {
		return incidentError(failed)
	}
	o := outcomeOfError(ctx, err)
	message := cmp.Or(messageOf(err), string(o.code))
	details := outcomeDetails(o)
	if refused, ok := errors.AsType[*lookup.Error](err); ok && refused.Field != "" {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: refused.Field, Description: refused.Message, Reason: o.reason}}})
	}
	return withDetails(status.New(o.grpc, message), details...)
}

// failGRPC ends a call with an error. It returns the status of err if err has one, such as
// that of a message that could not be sent.
func (c *call) failGRPC(ctx context.Context, err error) error {
	c.outcome = outcomeOfError(ctx, err)
	return asStatus(ctx, err)
}

// unansweredError returns the status of a lookup in which no key was answered. Its details
// have the response, with the status of each key.
func unansweredError(o outcome, from *lookup.Response) error {
	results := from.Results
	texts := 0
	for i := range results {
		texts += len(reasonOf(&results[i]))
	}
	resp := &qosproxyv1.BatchGetResponse{Stats: statsOf(from.Stats)}
	resp.Partial, resp.UnprocessedKeys = leftover(results)
	each := make([]qosproxyv1.KeyResult, len(results))
	resp.Results = make([]*qosproxyv1.KeyResult, len(results))
	for i := range results {
		r := &results[i]
		each[i].Status, each[i].Reason = statusesOf[r.Status], qosproxyv1.Reason(whyOf(r))
		if texts <= maxDetailBytes {
			each[i].Error = reasonOf(r)
		}
		resp.Results[i] = &each[i]
	}
	message := fmt.Sprintf("none of %d keys was answered", len(results))
	deciding := o.deciding()
	if i := slices.IndexFunc(results, func(r partition.Result) bool { return r.Status == deciding }); i >= 0 {
		message += ": " + reasonOf(&results[i])
	}
	details := outcomeDetails(o)
	if fits(resp, each) {
		details = append(details, resp)
	}
	return withDetails(status.New(o.grpc, message), details...)
}

// fits reports whether a response fits into the details of an error. If need be it drops the
// texts of the results, and then their reasons. results are those of resp.
func fits(resp *qosproxyv1.BatchGetResponse, results []qosproxyv1.KeyResult) bool {
	for _, omit := range []func(*qosproxyv1.KeyResult){
		func(*qosproxyv1.KeyResult) {},
		func(r *qosproxyv1.KeyResult) { r.Error = "" },
		func(r *qosproxyv1.KeyResult) { r.Reason = qosproxyv1.Reason_REASON_UNSPECIFIED },
	} {
		for i := range results {
			omit(&results[i])
		}
		if proto.Size(resp) <= maxDetailBytes {
			return true
		}
	}
	return false
}

func outcomeDetails(o outcome) []protoadapt.MessageV1 {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{
		Reason: o.reason, Domain: errorDomain, Metadata: map[string]string{reasonKey: o.why.String()}}}
	if o.retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(o.retry)})
	}
	return details
}

// unknownMethod returns the status for a call of a method that does not exist.
func unknownMethod(message string) error {
	return withDetails(status.New(codes.Unimplemented, message), outcomeDetails(outcome{reason: "UNKNOWN_METHOD", why: reasons.UnknownMethod})...)
}

// withDetails adds details to a status, which fails only for OK.
func withDetails(s *status.Status, details ...protoadapt.MessageV1) error {
	detailed, err := s.WithDetails(details...)
	if err != nil {
		return s.Err()
	}
	return detailed.Err()
}
