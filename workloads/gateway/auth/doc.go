// SPDX-License-Identifier: Apache-2.0

// Package auth tells who calls the gateway: somebody with a static token, or
// somebody who is signed in with Google and on the allow-list.
package auth
