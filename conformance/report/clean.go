// SPDX-License-Identifier: Apache-2.0

package report

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the longest text, in bytes, that a report carries in one place.
const MaxText = 4096

// signs are the characters beyond ASCII and Latin letters that pass. Each is
// one cell wide and has no direction of its own.
const signs = "–—‘’“”…→←≤≥×·µ°§"

// Clean makes text from anywhere safe to print, and to put into XML: secrets
// are replaced by their digests, everything that is not plainly printable is
// written as an escape, and what is longer than [MaxText] is cut.
//
// It is an allow-list. Control characters (so ANSI sequences and line breaks
// too) are not in it, nor bidirectional marks and right-to-left letters, which
// reorder a line, nor combining and wide characters, which break a table's
// columns. A backslash is not doubled, so that cleaning twice changes nothing:
// a reader cannot tell an escape from the same characters sent as such, and
// both are harmless.
func Clean(s string) string {
	var b strings.Builder
	// Twice the limit is enough, and leaves no secret half cut for redact.
	for len(s) > 0 && b.Len() <= 2*MaxText {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case plain(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		s = s[n:]
	}
	// Secrets are looked for last: the hex digits of an escape can complete a
	// word that announces one, and cleaning again would then find it.
	return cut(redact(b.String()))
}

func plain(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= ' ' && r != 0x7f
	case r >= 0xff00 && r <= 0xffef: // full-width forms of ASCII
		return false
	}
	return unicode.Is(unicode.Latin, r) && unicode.IsLetter(r) || strings.ContainsRune(signs, r)
}

func cut(s string) string {
	if len(s) <= MaxText {
		return s
	}
	const mark = "…"
	n := MaxText - len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// secrets are the forms in which a credential may turn up in what a sandbox
// says, escaped. The first group, where there is one, is kept.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*`),
	regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`), // JWT
	regexp.MustCompile(`stockade-canary-[A-Za-z0-9_.-]+`),                              // the range's own tokens
	regexp.MustCompile(`ya29\.[A-Za-z0-9_.-]{8,}`),                                     // Google access token
	regexp.MustCompile(`1//[A-Za-z0-9_-]{20,}`),                                        // Google refresh token
	regexp.MustCompile(`AIza[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{10,}`),             // Google API key, client secret
	regexp.MustCompile(`gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{12,}`),
	regexp.MustCompile(`(?i)(bearer(?: |\\[nt])+)[A-Za-z0-9_.~+/-]{16,}=*`),
	regexp.MustCompile(`(?i)((?:password|passwd|secret|token|api[_-]?key)["']?\s*[=:]\s*["']?)[A-Za-z0-9_.~+-][A-Za-z0-9_.~+/-]{15,}=*`),
}

// redact replaces the values of secrets by digests: enough to recognise one
// that is known, useless to whoever reads the report.
func redact(s string) string {
	for _, re := range secrets {
		s = re.ReplaceAllStringFunc(s, func(m string) string {
			keep := ""
			if g := re.FindStringSubmatch(m); len(g) > 1 {
				keep = g[1]
			}
			sum := sha256.Sum256([]byte(m[len(keep):]))
			return fmt.Sprintf("%s[secret sha256:%x]", keep, sum[:6])
		})
	}
	return s
}
