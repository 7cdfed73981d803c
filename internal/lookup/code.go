package lookup

// Code is the outcome of a whole lookup, as in metrics, traces and JSON errors.
type Code string

// The codes. All but CodePartial and CodePartialOK are names of gRPC codes.
const (
	// CodeOK means that every key was answered.
	CodeOK Code = "OK"
	// CodePartial means that some keys were not answered. CodePartialOK means that the
	// caller had agreed to do without them: optional keys that were shed, keys not answered
	// at a soft deadline, and keys that were too large.
	CodePartial   Code = "PARTIAL"
	CodePartialOK Code = "PARTIAL_OK"
	// CodeCancelled means that the caller hung up.
	CodeCancelled        Code = "CANCELLED"
	CodeDeadlineExceeded Code = "DEADLINE_EXCEEDED"
	// CodeFailedPrecondition means that no key was answered, and all were too large.
	CodeFailedPrecondition Code = "FAILED_PRECONDITION"
	CodeInternal           Code = "INTERNAL"
	CodeInvalidArgument    Code = "INVALID_ARGUMENT"
	CodeNotFound           Code = "NOT_FOUND"
	CodePermissionDenied   Code = "PERMISSION_DENIED"
	CodeResourceExhausted  Code = "RESOURCE_EXHAUSTED"
	CodeUnauthenticated    Code = "UNAUTHENTICATED"
	CodeUnavailable        Code = "UNAVAILABLE"
)
