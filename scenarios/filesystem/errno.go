// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"errors"
	"syscall"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// classify names the class of a file operation's failure. What it does not
// know is Unknown, which is never evidence.
func classify(err error) verdict.Class {
	var no syscall.Errno
	if !errors.As(err, &no) {
		return verdict.Unknown
	}
	switch no {
	case syscall.EROFS:
		return verdict.ReadOnly
	case syscall.EPERM, syscall.EACCES:
		return verdict.Permission
	case syscall.ENOENT, syscall.ENOTDIR:
		return verdict.Absent
	case syscall.ENOSPC, syscall.EDQUOT:
		return verdict.NoSpace
	case syscall.ENOSYS:
		return verdict.NoSyscall
	case syscall.ENODEV, syscall.ENXIO, syscall.EOPNOTSUPP:
		return verdict.Unsupported
	case syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		return verdict.ResourceLimit
	default:
		return verdict.Unknown
	}
}
