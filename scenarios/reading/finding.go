// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"fmt"

	"github.com/stockade-dev/stockade/conformance/verdict"
)

// finding is what a policy amounts to: a way that is open, or what of it is not
// understood; neither is a policy that leads nowhere else.
type finding struct{ open, unread string }

// worse keeps the first that is open, or else the first that is not understood.
func (f finding) worse(g finding) finding {
	if f.open == "" && (g.open != "" || f.unread == "") {
		return g
	}
	return f
}

func isOpen(format string, args ...any) finding { return finding{open: fmt.Sprintf(format, args...)} }

func isUnread(format string, args ...any) finding {
	return finding{unread: fmt.Sprintf(format, args...)}
}

// of says whose the finding is.
func (f finding) of(policy string) finding {
	if f.open != "" {
		f.open = policy + " allows " + f.open
	}
	if f.unread != "" {
		f.unread = policy + " has " + f.unread
	}
	return f
}

// step is what a search for something open comes to.
func (f finding) step(name, good string) verdict.Step {
	switch {
	case f.open != "":
		return verdict.Step{Name: name, OK: true, Detail: f.open}
	case f.unread != "":
		return verdict.Step{Name: name, Class: verdict.Unknown, Detail: f.unread + ", which is not read"}
	}
	return verdict.Step{Name: name, Class: verdict.Absent, Detail: good}
}
