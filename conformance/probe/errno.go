// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// ErrCut marks an action that ran out of its attempt's time before its own
// patience was at an end. A silence that was not waited for proves nothing, so
// it never classifies as dropped.
var ErrCut = errors.New("the attempt ended before an answer was due")

// classes is the one table of error numbers, for the network's and for files'.
var classes = map[syscall.Errno]verdict.Class{
	syscall.EPERM:           verdict.Permission,
	syscall.EACCES:          verdict.Permission,
	syscall.ENOSYS:          verdict.NoSyscall,
	syscall.EAFNOSUPPORT:    verdict.Unsupported,
	syscall.EPROTONOSUPPORT: verdict.Unsupported,
	syscall.ESOCKTNOSUPPORT: verdict.Unsupported,
	syscall.EOPNOTSUPP:      verdict.Unsupported,
	syscall.ENODEV:          verdict.Unsupported,
	syscall.ENXIO:           verdict.Unsupported,
	syscall.EROFS:           verdict.ReadOnly,
	syscall.ENOSPC:          verdict.NoSpace,
	syscall.EDQUOT:          verdict.NoSpace,
	syscall.ENOENT:          verdict.Absent,
	syscall.ENOTDIR:         verdict.Absent,
	syscall.EAGAIN:          verdict.ResourceLimit,
	syscall.ENOMEM:          verdict.ResourceLimit,
	syscall.EMFILE:          verdict.ResourceLimit,
	syscall.ENFILE:          verdict.ResourceLimit,
	syscall.ECONNREFUSED:    verdict.Refused,
	syscall.ECONNRESET:      verdict.Reset,
	syscall.EPIPE:           verdict.Reset,
	syscall.ENETUNREACH:     verdict.Unreachable,
	syscall.EHOSTUNREACH:    verdict.Unreachable,
	syscall.EADDRNOTAVAIL:   verdict.Unreachable,
	syscall.ETIMEDOUT:       verdict.Dropped,
}

// Classify says how an error denies. What it does not know, EINVAL among it,
// is Unknown: only a scenario can say that an odd error is what it expects.
func Classify(err error) verdict.Class {
	if err == nil || errors.Is(err, ErrCut) || errors.Is(err, context.Canceled) {
		return verdict.Unknown
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		if c, ok := classes[no]; ok {
			return c
		}
		return verdict.Unknown
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return verdict.NoName
	}
	var ne net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || (errors.As(err, &ne) && ne.Timeout()) {
		return verdict.Dropped
	}
	if errors.Is(err, os.ErrNotExist) {
		return verdict.Absent
	}
	return verdict.Unknown
}

// Denied is the step of an action that failed with err.
func Denied(name string, err error) verdict.Step {
	return verdict.Step{Name: name, Class: Classify(err), Detail: fmt.Sprint(err)}
}

// Failed is the step of an action that failed in a way the caller classified.
func Failed(name string, class verdict.Class, format string, args ...any) verdict.Step {
	return verdict.Step{Name: name, Class: class, Detail: fmt.Sprintf(format, args...)}
}

// Reached is the step of an action that got what it wanted.
func Reached(name, format string, args ...any) verdict.Step {
	return verdict.Step{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)}
}

// NoSite is the step of an action whose destination the site does not name.
// It is no evidence: nothing was tried.
func NoSite(name, what string) verdict.Step {
	return Failed(name, verdict.ToolMissing, "the target's site names no %s", what)
}

// Together runs actions at the same time and returns their steps in order. A
// dropped connect takes its whole patience, so that doing them one after the
// other would outlast the attempt.
func Together(actions ...func() verdict.Step) []verdict.Step {
	steps := make([]verdict.Step, len(actions))
	var wg sync.WaitGroup
	for i, act := range actions {
		wg.Go(func() {
			start := time.Now()
			// A panic here is on a goroutine of its own, where the guard of the
			// attempt does not see it.
			defer func() {
				if p := recover(); p != nil {
					steps[i] = Failed("run the action", verdict.Unknown, "panic: %v", p)
				}
				steps[i].Millis = time.Since(start).Milliseconds()
			}()
			steps[i] = act()
		})
	}
	wg.Wait()
	return steps
}
