// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestTextIsMadeHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, 100 %":            "plain text, 100 %",
		"Größe → 4 MiB":                "Größe → 4 MiB",
		"\x1b[31mred\x1b[0m":           `\x1b[31mred\x1b[0m`,
		"two\nlines\tand a tab":        `two\nlines\tand a tab`,
		"over\rwritten\b\x7f":          `over\x0dwritten\x08\x7f`,
		"\u009b31m (a C1 sequence)":    `\u009b31m (a C1 sequence)`,
		"right\u202eleft\u2066\u200f":  `right\u202eleft\u2066\u200f`,
		"שלום":                         `\u05e9\u05dc\u05d5\u05dd`,
		"e\u0301 stacked":              `e\u0301 stacked`,
		"wide \uff21 and \U0001f600":   `wide \uff21 and \U0001f600`,
		"invalid \xff\xc0\xaf":         `invalid \xff\xc0\xaf`,
		"not XML \ufffe \ufffd":        `not XML \ufffe \ufffd`,
		`already \x1b escaped`:         `already \x1b escaped`,
		"a\u2028line separator\u00a0.": `a\u2028line separator\u00a0.`,
	} {
		assert.Equal(t, want, Clean(in))
	}
}

func TestSecretsAreNamedByDigestOnly(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
	for _, secret := range []string{
		jwt,
		"stockade-canary-0f0f0f-default",
		"ya29.a0AfH6SMBxxxxxxxx",
		"1//0gabcdefghijklmnopqrstuv",
		"AIzaSyA1234567890abcdefghijkl",
		"GOCSPX-abcdefghij12",
		"ghp_abcdefghijklmnopqrstuvwx",
		"AKIAABCDEFGHIJKLMNOP",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE",
	} {
		got := Clean("found " + secret)
		assert.NotContains(t, got, secret)
		assert.Contains(t, got, "found [secret sha256:")
	}
	assert.Contains(t, Clean("password=hunter2hunter2hunter2"), "password=[secret sha256:")
	sum := sha256.Sum256([]byte(jwt))
	assert.Contains(t, Clean("x "+jwt), hex.EncodeToString(sum[:6]), "the digest recognises a secret that is known")
}

func TestWhatIsNoSecretStays(t *testing.T) {
	for _, s := range []string{
		"token: /var/run/secrets/kubernetes.io/serviceaccount/token: no such file",
		"nonce 0123456789abcdef0123456789abcdef",
		"secret sha256:0123456789ab",
		"bearer of news",
		"connect 203.0.113.7:8080: i/o timeout",
	} {
		assert.Equal(t, s, Clean(s))
	}
}

func TestLongTextIsCut(t *testing.T) {
	got := Clean(strings.Repeat("ü\x00", MaxText))
	assert.LessOrEqual(t, len(got), MaxText)
	assert.True(t, strings.HasSuffix(got, "…"))
	assert.True(t, utf8.ValidString(got))
}

func FuzzCleanTextIsHarmlessAnywhere(f *testing.F) {
	f.Add(hostile)
	f.Add("token=abcdefghijklmnopqrstuvwxyz")
	f.Add("bearer\t\u00a0abcdefghijklmnopqrst")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		assert.LessOrEqual(t, len(got), MaxText)
		assert.Equal(t, got, Clean(got), "cleaning twice changes nothing")
		for _, r := range got {
			assert.True(t, unicode.IsPrint(r) && r != utf8.RuneError, "%U of %q", r, s)
		}
		var b bytes.Buffer
		assert.NoError(t, xml.EscapeText(&b, []byte(got)))
		assert.NotContains(t, b.String(), "\ufffd", "XML replaces what it cannot hold")
	})
}
