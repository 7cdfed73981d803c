package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/incident"
	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// errorDomain is the domain of google.rpc.ErrorInfo.
const errorDomain = "qosproxy"

// maxDetailBytes bounds the response that travels in the details of an error.
// Details are a header: many clients refuse more than 8 KiB of headers, and then
// show an error about headers in place of ours.
const maxDetailBytes = 4 << 10

// grpcError is the status of a request that is refused as a whole.
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

// failGRPC ends a call with an error: its own status if it has one, such as that of a
// message that could not be sent.
func (c *call) failGRPC(ctx context.Context, err error) error {
	c.outcome = outcomeOfError(ctx, err)
	return asStatus(ctx, err)
}

// unansweredError is the status of a lookup of which no key was answered, with
// the response that tells so of each key.
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
		each[i].Status = statusesOf[r.Status]
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
	size := proto.Size(resp)
	if size > maxDetailBytes && texts <= maxDetailBytes {
		for i := range each {
			each[i].Error = ""
		}
		size = proto.Size(resp)
	}
	if size <= maxDetailBytes {
		details = append(details, resp)
	}
	return withDetails(status.New(o.grpc, message), details...)
}

func outcomeDetails(o outcome) []protoadapt.MessageV1 {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: o.reason, Domain: errorDomain}}
	if o.retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(o.retry)})
	}
	return details
}

// withDetails adds the details, which fails only for a status that is OK.
func withDetails(s *status.Status, details ...protoadapt.MessageV1) error {
	detailed, err := s.WithDetails(details...)
	if err != nil {
		return s.Err()
	}
	return detailed.Err()
}
