// SPDX-License-Identifier: Apache-2.0

package verdict

// Class says how an action was denied. "It did not work" is never enough: a
// timeout and a refusal have different causes, and a missing tool or a lost
// connection is no denial at all.
type Class string

// The classes that can be evidence of a control at work.
const (
	// Dropped is a connect or datagram that got no answer in time. It only
	// counts beside a control that was answered in the same window.
	Dropped Class = "dropped"
	// Refused is ECONNREFUSED: something answered, and said no.
	Refused Class = "refused"
	// Reset is ECONNRESET or EPIPE after the connection stood.
	Reset Class = "reset"
	// Unreachable is ENETUNREACH, EHOSTUNREACH or EADDRNOTAVAIL.
	Unreachable Class = "unreachable"
	// Permission is EPERM or EACCES.
	Permission Class = "permission"
	// NoSyscall is ENOSYS: the kernel that answers does not have the call.
	NoSyscall Class = "no-syscall"
	// Unsupported is EAFNOSUPPORT, EPROTONOSUPPORT, EOPNOTSUPP, ENODEV or
	// EINVAL where the scenario says that this is how "not built in" looks.
	Unsupported Class = "unsupported"
	// ReadOnly is EROFS.
	ReadOnly Class = "read-only"
	// NoSpace is ENOSPC or EDQUOT.
	NoSpace Class = "no-space"
	// Absent is ENOENT, ENOTDIR, or a value that is simply not there.
	Absent Class = "absent"
	// Confined means that the action went through, and that its effect was
	// seen to end inside the sandbox (gVisor's own kernel, its own mounts).
	Confined Class = "confined"
	// Killed means that the sandbox or the process was ended for it.
	Killed Class = "killed"
	// ResourceLimit is EAGAIN, ENOMEM or a measured rate at the limit.
	ResourceLimit Class = "resource-limit"
	// NoName is NXDOMAIN or an empty answer from a resolver that is alive.
	NoName Class = "no-name"
	// AdmissionDenied is the API server's refusal by an admission policy.
	AdmissionDenied Class = "admission-denied"
	// Unschedulable means that no node took the Pod, for a taint or selector.
	Unschedulable Class = "unschedulable"
	// HTTP401 and HTTP403 are refusals by an HTTP server.
	HTTP401 Class = "http-401"
	HTTP403 Class = "http-403"
)

// The classes that are never evidence: they make a scenario Inconclusive.
const (
	TransportError Class = "transport-error"
	ToolMissing    Class = "tool-missing"
	Unknown        Class = "unknown"
)

// evidence lists the classes that may count as a denial. A class that is not
// in it, one made up by a sandbox included, never does.
var evidence = map[Class]bool{
	Dropped: true, Refused: true, Reset: true, Unreachable: true,
	Permission: true, NoSyscall: true, Unsupported: true, ReadOnly: true,
	NoSpace: true, Absent: true, Confined: true, Killed: true,
	ResourceLimit: true, NoName: true, AdmissionDenied: true,
	Unschedulable: true, HTTP401: true, HTTP403: true,
}

// IsEvidence tells whether the class can count as a denial.
func (c Class) IsEvidence() bool { return evidence[c] }

// unanswered lists the classes that say only that the network gave no service: a
// peer that is not there looks the same as a wall before it.
var unanswered = map[Class]bool{Dropped: true, Refused: true, Reset: true, Unreachable: true}
