// SPDX-License-Identifier: Apache-2.0

package execution

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Python is the language that programs can be written in.
const Python = "python"

// maxSource bounds a program, in bytes.
const maxSource = 64 << 10

// Program is what is to be run.
type Program struct {
	// Name of the run's Pod.
	Name string `json:"-"`

	Language string `json:"language"`
	Source   string `json:"source"`
	Stdin    string `json:"stdin,omitempty"`
}

func (p Program) argv() ([]string, error) {
	switch {
	case p.Name == "":
		return nil, fmt.Errorf("running a program: it has no name")
	case p.Language != Python:
		return nil, fmt.Errorf("running a program: the language %q is not %s", p.Language, Python)
	case p.Source == "" || len(p.Source) > maxSource || strings.ContainsRune(p.Source, 0):
		return nil, fmt.Errorf("running a program: the source must have 1 to %d bytes, none of them 0", maxSource)
	}
	// -I: neither the environment nor the working folder brings code of its own.
	return []string{"python3", "-I", "-c", loader, strconv.Itoa(len(p.Source))}, nil
}

// loader runs the program that stands before the input on standard input. As an
// argument of the exec it would be a part of a request's address, which API
// servers write into their audit logs.
const loader = `def load():
    import os, sys
    size, source = int(sys.argv.pop()), b""
    while len(source) < size:
        piece = os.read(0, size - len(source))
        if not piece:
            sys.exit("the program did not arrive")
        source += piece
    del globals()["load"]
    return compile(source, "<program>", "exec")
exec(load())`

// input is the program, and what it reads after that.
func (p Program) input() io.Reader {
	return io.MultiReader(strings.NewReader(p.Source), strings.NewReader(p.Stdin))
}

// Status says how a run ended.
type Status string

// How runs end.
const (
	OK          Status = "ok"
	Failed      Status = "error"        // the program's own exit code
	MemoryLimit Status = "memory-limit" // it wanted more memory than it may have
	TimeLimit   Status = "time-limit"
	OutputLimit Status = "output-limit" // the rest was cut off
	Killed      Status = "killed"       // its sandbox was ended from outside
)

// Result is what became of a run.
type Result struct {
	Status   Status `json:"status"`
	ExitCode int    `json:"exitCode"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	// UID is the user id of the run; -1 when its Pod has none of its own.
	UID    int64 `json:"uid"`
	Millis int64 `json:"millis"`
}

// ending is all that is known of a run's end.
type ending struct {
	language string
	code     int
	stderr   string
	// late: the time was over. cut: the output was larger than is kept, flooded:
	// so much larger that the program was ended for it. killed and oom: the
	// container was ended, for memory.
	late, cut, flooded, killed, oom bool
}

// status judges an ending.
//
// Outside of gVisor a program that takes too much is killed by the kernel, and
// that is told by the container's end. Under gVisor the limit is that of the
// address space: Python gets no memory, raises MemoryError, and ends like any
// program with an error of its own. It is a violation of the limit all the
// same. A program that only prints such a line deceives nobody but its author.
func (e ending) status() Status {
	switch {
	case e.late:
		return TimeLimit
	case e.killed && e.oom:
		return MemoryLimit
	case e.killed:
		return Killed
	case e.language == Python && e.code == 1 && memoryError(e.stderr):
		return MemoryLimit
	case e.cut, e.flooded:
		return OutputLimit
	case e.code != 0:
		return Failed
	}
	return OK
}

func (e ending) exit() int {
	if e.late || e.killed || e.flooded {
		return 137 // 128 and SIGKILL, as a shell would say
	}
	return e.code
}

// memoryError tells whether the last line is that of an uncaught MemoryError.
// The same words further up are those of an exception that was handled.
func memoryError(stderr string) bool {
	stderr = strings.TrimRight(stderr, "\r\n ")
	last := stderr[strings.LastIndexByte(stderr, '\n')+1:]
	return last == "MemoryError" || strings.HasPrefix(last, "MemoryError: ")
}
