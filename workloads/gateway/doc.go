// SPDX-License-Identifier: Apache-2.0

// Package gateway is kode-gopher's server: it speaks MCP, over streamable HTTP
// and over standard input and output, and offers one tool, which builds and runs
// a Go program. Each session has a sandbox of its own for as long as it lasts.
//
// The server reviews no code. It makes sure that a session reaches its own
// sandbox and no other, that a user has no more of them than are allowed, that
// nothing which a client sends decides where a request goes, and that what comes
// back out of a sandbox is taken for what it is: text by a stranger.
package gateway
