// SPDX-License-Identifier: Apache-2.0

package rangehost

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/stockade-dev/stockade/workloads/range/world"
)

// Bounds of one HTTP exchange.
const (
	maxHeadBytes = 64 << 10
	maxRequests  = 100 // of one connection
	bodyTime     = 30 * time.Second
	maxDoH       = 64 << 10
)

// reply is what the range says to an HTTP request.
type reply struct {
	status int
	header http.Header
	body   []byte
	canary string // a token that was handed out
}

// serveHTTP answers HTTP/1.x requests. The parser is net/http's own, without
// its server: one goroutine a connection, and every byte under our bounds.
func (st *stream) serveHTTP() {
	for range maxRequests {
		st.conn.idle(idleTime)
		rest := st.conn.left
		st.conn.left = min(rest, maxHeadBytes)
		before := st.conn.left
		req, err := http.ReadRequest(st.r)
		st.conn.left = rest - (before - st.conn.left)
		if err != nil {
			if st.r.Buffered() > 0 || st.conn.total > 0 {
				e := st.event("http")
				e.Name, e.Status, e.Bytes, e.Nonces = "malformed", http.StatusBadRequest, st.conn.total, st.conn.take()
				if !isEOF(err) {
					st.s.log.append(e)
				}
			}
			if !isEOF(err) {
				_ = st.conn.say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + marker(""))
			}
			return
		}
		if !st.exchange(req) {
			return
		}
	}
}

// exchange logs and answers one request; it reports whether another may follow.
func (st *stream) exchange(req *http.Request) bool {
	st.conn.idle(bodyTime)
	e := st.event("http")
	e.Host, e.Path, e.Name = clipText(req.Host), clipText(req.URL.RequestURI()), clipText(req.Method)
	if req.Method == http.MethodConnect {
		e.Path = ""
	}
	if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		if st.conn.say("HTTP/1.1 100 Continue\r\n\r\n") != nil {
			return false
		}
	}
	// A body is read before the answer, so that its nonces are in the log by
	// then; what exceeds the bound ends the connection.
	kept, err := io.ReadAll(io.LimitReader(req.Body, maxDoH))
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(req.Body, maxConnBytes))
	}
	e.Bytes = st.conn.total
	e.Nonces = merge(st.conn.take(), findInName(req.Host))
	var rep reply
	switch {
	case world.IsMetadata(st.dst.Addr()):
		e.Service = "metadata"
		rep = metadataReply(req)
	case forbidden(st.dst.Addr(), req):
		rep = markerReply(e.Nonces)
		rep.status = http.StatusForbidden
	case isDoH(req):
		rep = st.dohReply(req, kept)
	case st.s.zone.IsGoProxy(req.Host) && isModule(req):
		rep = moduleReply(req, e.Nonces)
	default:
		rep = markerReply(e.Nonces)
	}
	e.Status = rep.status
	if rep.canary != "" {
		e.Canaries = []string{rep.canary}
	}
	st.s.log.append(e)
	if err != nil {
		return false
	}
	last := req.Close || req.Method == http.MethodConnect
	resp := &http.Response{
		StatusCode: rep.status, ProtoMajor: 1, ProtoMinor: 1, Request: req, Header: rep.header,
		ContentLength: int64(len(rep.body)), Body: io.NopCloser(strings.NewReader(string(rep.body))),
		Close: last,
	}
	return resp.Write(st.conn.Conn) == nil && !last
}

func markerReply(nonces []string) reply {
	n := ""
	if len(nonces) > 0 {
		n = nonces[len(nonces)-1]
	}
	h := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, world.Marker: {strings.TrimSpace(marker(n))}}
	return reply{status: http.StatusOK, header: h, body: []byte(marker(n))}
}

// forbidden plays VPC Service Controls: the restricted front end guards the
// perimeter, as the real one does.
func forbidden(dst netip.Addr, req *http.Request) bool {
	return world.IsRestricted(dst) && !world.Guarded(req.Host, req.URL.Path)
}

// isDoH recognises DNS over HTTPS (RFC 8484): a tunnel like any other.
func isDoH(req *http.Request) bool {
	return req.Header.Get("Content-Type") == "application/dns-message" ||
		(req.Method == http.MethodGet && req.URL.Query().Get("dns") != "")
}

func (st *stream) dohReply(req *http.Request, body []byte) reply {
	msg := body
	if req.Method == http.MethodGet {
		var err error
		if msg, err = base64.RawURLEncoding.DecodeString(req.URL.Query().Get("dns")); err != nil {
			return reply{status: http.StatusBadRequest}
		}
	}
	answer := st.s.answerDNS(msg, st.event("dns"), dns.MaxMsgSize)
	if answer == nil {
		return reply{status: http.StatusBadRequest}
	}
	return reply{status: http.StatusOK, header: http.Header{
		"Content-Type": {"application/dns-message"}, "Cache-Control": {"max-age=" + strconv.Itoa(ttl)},
	}, body: answer}
}

func isEOF(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF || isTimeout(err) } //nolint:errorlint // ReadRequest returns them bare
