// SPDX-License-Identifier: Apache-2.0

// Command agent is not run here: its text is what the scenarios hand to the
// server as a user's program. It reads orders from standard input, carries them
// out in the sandbox, and says on standard output what came of each. It builds
// with the standard library alone, and in little time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// order is one thing to do. Which fields it has depends on Do.
type order struct {
	Do      string   `json:"do"`
	Path    string   `json:"path,omitempty"`
	Text    string   `json:"text,omitempty"`
	Address string   `json:"address,omitempty"`
	Header  []string `json:"header,omitempty"` // whole lines
	Method  string   `json:"method,omitempty"`
}

// outcome is what came of it. OK says that it was done, or that something was
// found.
type outcome struct {
	OK     bool   `json:"ok"`
	Code   int    `json:"code,omitempty"` // of an HTTP answer
	Text   string `json:"text,omitempty"`
	Denial string `json:"denial,omitempty"` // a class of the suite's
}

// report is the whole answer.
type report struct {
	Host      string    `json:"host"`
	Addresses []string  `json:"addresses"`
	Did       []outcome `json:"did"`
}

const (
	dialTime  = 3 * time.Second
	talkTime  = 10 * time.Second
	maxText   = 8 << 10
	maxSearch = 1 << 20 // bytes of a file that are searched
	// Longer than a run may take, and fewer lines than a text holds.
	lingerFor = 40 * time.Second
	lingerGap = 100 * time.Millisecond
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "linger" {
		linger()
		return
	}
	var orders []order
	if err := json.NewDecoder(os.Stdin).Decode(&orders); err != nil {
		_, _ = os.Stderr.WriteString("reading the orders: " + err.Error() + "\n")
		return
	}
	host, _ := os.Hostname()
	r := report{Host: host, Addresses: addresses(), Did: []outcome{}}
	for _, o := range orders {
		r.Did = append(r.Did, do(o))
	}
	_ = json.NewEncoder(os.Stdout).Encode(r) // whoever reads sees what is missing
}

func do(o order) outcome {
	switch o.Do {
	case "plant":
		return plant(o.Path, o.Text)
	case "lock":
		return from(os.Chmod(o.Path, 0))
	case "find":
		return find(o.Text)
	case "read":
		b, err := os.ReadFile(o.Path)
		out := from(err)
		out.Text = string(b[:min(len(b), maxText)])
		return out
	case "dial":
		c, err := dial(o.Address)
		if err == nil {
			_ = c.Close()
		}
		return from(err)
	case "ask":
		return ask(o)
	case "secrets":
		return secrets()
	case "linger":
		return from(spawn(o))
	case "replant":
		return replant(o)
	case "pause": // what was left behind has time to do its work
		time.Sleep(5 * lingerGap)
		return outcome{OK: true}
	}
	return outcome{Text: "nobody knows how to " + o.Do}
}

// from classifies an error as the suite does.
func from(err error) outcome {
	if err == nil {
		return outcome{OK: true}
	}
	out := outcome{Text: err.Error()}
	var timeout interface{ Timeout() bool }
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		if name.IsNotFound {
			out.Denial = "no-name"
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		out.Denial = "refused"
	case errors.Is(err, syscall.ECONNRESET):
		out.Denial = "reset"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		out.Denial = "unreachable"
	case errors.As(err, &timeout) && timeout.Timeout():
		out.Denial = "dropped"
	case errors.Is(err, fs.ErrNotExist):
		out.Denial = "absent"
	case errors.Is(err, fs.ErrPermission):
		out.Denial = "permission"
	}
	return out
}

// dial takes variables in an address, and port 80 where none is named.
func dial(address string) (net.Conn, error) {
	address = os.ExpandEnv(address)
	if !strings.Contains(address, ":") {
		address += ":80"
	}
	return (&net.Dialer{Timeout: dialTime}).DialContext(context.Background(), "tcp", address)
}

func addresses() []string {
	all := []string{}
	found, _ := net.InterfaceAddrs()
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			all = append(all, n.IP.String())
		}
	}
	return all
}

func plant(path, text string) outcome {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return from(err)
	}
	return from(os.WriteFile(path, []byte(text), 0o600))
}

// find looks for a text wherever a program can leave one: in files and their
// names, and in what processes were started with.
func find(text string) outcome {
	var places []string
	for _, root := range append(mounts(), "/app", "/tmp", "/var/tmp", "/dev/shm", "/run", "/home", os.Getenv("HOME")) {
		walk(root, func(path string, regular bool) {
			if strings.Contains(filepath.Base(path), text) || regular && contains(path, text) {
				places = append(places, path)
			}
		})
	}
	for _, what := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + what)
		for _, f := range files {
			if contains(f, text) {
				places = append(places, f)
			}
		}
	}
	if len(places) == 0 {
		return outcome{Denial: "absent", Text: "nowhere"}
	}
	return outcome{OK: true, Text: join(places)}
}

// caches are the go command's own, of what it built and of modules. Below their first
// level the files are many, and not a program's.
var caches = []string{"/tmp/go-build", "/tmp/go/pkg/mod"}

// walk visits everything below a path but what is deep in a cache. A folder that is
// locked is opened first.
func walk(path string, visit func(path string, regular bool)) {
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	visit(path, info.Mode().IsRegular())
	if !info.IsDir() || slices.Contains(caches, filepath.Dir(path)) {
		return
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(path, 0o700) == nil {
		entries, _ = os.ReadDir(path)
	}
	for _, e := range entries {
		walk(filepath.Join(path, e.Name()), visit)
	}
}

func contains(path, text string) bool {
	return strings.Contains(head(path), text)
}

func head(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // it was only read
	b, _ := io.ReadAll(io.LimitReader(f, maxSearch))
	return string(b)
}

// mounts are the folders that were mounted into this sandbox.
func mounts() []string {
	var all []string
	for line := range strings.SplitSeq(head("/proc/self/mounts"), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		at := fields[1]
		if at != "/" && !strings.HasPrefix(at, "/proc") && !strings.HasPrefix(at, "/sys") && !strings.HasPrefix(at, "/dev") {
			all = append(all, at)
		}
	}
	return all
}

// marks are what keys and tokens that outlive a run look like. They are in two
// parts, so that this text is none.
var marks = []string{"PRIVATE " + "KEY-----", `"private` + `_key"`, `"refresh` + `_token"`, `"client` + `_secret"`, "ya" + "29."}

func secret(text string) bool {
	for _, m := range marks {
		if strings.Contains(text, m) {
			return true
		}
	}
	// A signed token: two JSON objects in base64url.
	const object = "ey" + "J"
	for rest := text; ; {
		i := strings.Index(rest, object)
		if i < 0 {
			return false
		}
		rest = rest[i+len(object):]
		word := rest
		if end := strings.IndexFunc(rest, notToken); end >= 0 {
			word = rest[:end]
		}
		if strings.Contains(word, "."+object) {
			return true
		}
	}
}

func notToken(r rune) bool {
	return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// secrets looks for keys and tokens in the environment and in files. The values
// stay here.
func secrets() outcome {
	var places []string
	for _, e := range os.Environ() {
		if name, value, _ := strings.Cut(e, "="); secret(value) {
			places = append(places, "the variable "+name)
		}
	}
	self, _ := os.Executable()
	for _, root := range append(mounts(), "/app", "/tmp", "/run", "/home", "/root", os.Getenv("HOME")) {
		walk(root, func(path string, regular bool) {
			if regular && path != self && secret(head(path)) {
				places = append(places, path)
			}
		})
	}
	if len(places) == 0 {
		return outcome{Denial: "absent", Text: "none"}
	}
	return outcome{OK: true, Text: join(places)}
}

func join(places []string) string {
	text := strings.Join(places, ", ")
	return text[:min(len(text), maxText)]
}

// ask sends one HTTP request. The text of a good answer is its body.
func ask(o order) outcome {
	c, err := dial(o.Address)
	if err != nil {
		return from(err)
	}
	defer c.Close() //nolint:errcheck // the answer was read, or there is none
	_ = c.SetDeadline(time.Now().Add(talkTime))
	method := o.Method
	if method == "" {
		method = "GET"
	}
	var request strings.Builder
	request.WriteString(method + " " + o.Path + " HTTP/1.0\r\nHost: " + os.ExpandEnv(o.Address) + "\r\n")
	for _, line := range o.Header {
		request.WriteString(line + "\r\n")
	}
	request.WriteString("Content-Length: " + strconv.Itoa(len(o.Text)) + "\r\n\r\n" + o.Text)
	if _, err := io.WriteString(c, request.String()); err != nil {
		return from(err)
	}
	answer, err := io.ReadAll(io.LimitReader(c, maxSearch))
	if err != nil && len(answer) == 0 {
		return from(err)
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	fields := strings.Fields(head)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/1.") {
		return outcome{Text: "no HTTP answer"}
	}
	code, _ := strconv.Atoi(fields[1])
	return outcome{OK: code >= 200 && code < 300, Code: code, Text: body[:min(len(body), maxText)]}
}

// spawn leaves a process behind that is in no group of ours.
func spawn(o order) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	what, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p, err := os.StartProcess(self, []string{self, "linger"}, &os.ProcAttr{
		Env: append(os.Environ(), "LINGER="+string(what)), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	return p.Release()
}

// replant leaves a process behind that plants a file whenever it is not there, and
// waits for the first.
func replant(o order) outcome {
	if err := spawn(o); err != nil {
		return from(err)
	}
	for range 20 {
		if _, err := os.Stat(o.Path); err == nil {
			return outcome{OK: true}
		}
		time.Sleep(lingerGap)
	}
	return outcome{Text: "the process that was left behind planted nothing"}
}

// linger goes on with an order when its program has ended: it plants a file, or asks
// and writes down when it got which answer.
func linger() {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv("LINGER")), &o); err != nil {
		return
	}
	tick := time.NewTicker(lingerGap)
	defer tick.Stop()
	end := time.Now().Add(lingerFor)
	if o.Do == "replant" {
		for ; time.Now().Before(end); <-tick.C {
			if _, err := os.Stat(o.Path); err != nil {
				plant(o.Path, o.Text)
			}
		}
		return
	}
	f, err := os.OpenFile(o.Text, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // what was written is there; there is no buffer
	o.Text = ""
	for ; time.Now().Before(end); <-tick.C {
		at := strconv.FormatInt(time.Now().UnixMilli(), 10)
		_, _ = f.WriteString(at + " " + strconv.Itoa(ask(o).Code) + "\n")
	}
}
