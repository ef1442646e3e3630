// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGoogleNamesShareOneFrontEnd(t *testing.T) {
	z := Zone{GoProxyHost: "goproxy.example.test"}
	for _, n := range []string{AllowedFrontEnd, "oauth2.googleapis.com.", SharingHost, "GoProxy.Example.test.", "europe-docker.pkg.dev"} {
		a, ok := z.Resolve(n)
		require.True(t, ok, n)
		assert.Equal(t, SharedFrontEnd(), a, n)
	}
}

func TestResolveIsStableAndStaysInDocumentationRanges(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32")
	for _, n := range []string{"a.b", "x.tunnel.stockade.test.", "example.org", "EXAMPLE.org."} {
		a, ok := Zone{}.Resolve(n)
		require.True(t, ok, n)
		b, _ := Zone{}.Resolve(n)
		assert.Equal(t, a, b)
		assert.True(t, v4.Contains(a[0]) && v6.Contains(a[1]), "%s is at %v", n, a)
	}
	lower, _ := Zone{}.Resolve("example.org")
	upper, _ := Zone{}.Resolve("EXAMPLE.ORG.")
	assert.Equal(t, lower, upper)
}

func TestNamesThatTheRootDeniesDoNotExist(t *testing.T) {
	for _, n := range []string{"stockade-control-plane", "kubernetes.default.svc.cluster.local.", "x.invalid", "c.project.internal.", ""} {
		_, ok := Zone{}.Resolve(n)
		assert.False(t, ok, n)
	}
}

func TestExtraNamesWin(t *testing.T) {
	want := []netip.Addr{netip.MustParseAddr("192.0.2.5")}
	got, ok := Zone{Extra: map[string][]netip.Addr{"storage.googleapis.com": want}}.Resolve(AllowedFrontEnd)
	require.True(t, ok)
	assert.Equal(t, want, got)
}

func TestIsMetadataKnowsEveryDoor(t *testing.T) {
	for _, a := range append(MetadataAlso(), Metadata) {
		assert.True(t, IsMetadata(netip.MustParseAddrPort(a).Addr()), a)
	}
	assert.True(t, IsMetadata(netip.MustParseAddr("::ffff:169.254.169.254")))
	assert.False(t, IsMetadata(netip.MustParseAddr("169.254.169.253")))
}

func TestOnlyTheProxysOwnNameIsTheProxys(t *testing.T) {
	z := Zone{GoProxyHost: "goproxy.example.test"}
	for host, want := range map[string]bool{"GoProxy.example.test": true, "goproxy.example.test.": true, "goproxy.example.test:443": true, "x.goproxy.example.test": false, "": false} {
		assert.Equal(t, want, z.IsGoProxy(host), host)
	}
	assert.False(t, Zone{}.IsGoProxy(""))
}

func TestThePerimeterGuardsApisAndItsOwnBucketOnly(t *testing.T) {
	for request, want := range map[[2]string]bool{
		{"storage.googleapis.com", "/" + OwnBucket + "/x"}:                                      true,
		{"storage.googleapis.com:443", "/" + ForeignBucket + "/x"}:                              false,
		{ForeignBucket + ".storage.googleapis.com", "/x"}:                                       false,
		{OwnBucket + ".storage.googleapis.com", "/x"}:                                           true,
		{"storage.googleapis.com", "/storage/v1/b/" + ForeignBucket + "/o?alt=media"}:           false,
		{"www.googleapis.com", "/upload/storage/v1/b/" + ForeignBucket + "/o?uploadType=media"}: false,
		{"www.googleapis.com", "/upload/storage/v1/b/" + OwnBucket + "/o"}:                      true,
		{"Storage.GoogleAPIs.com.", "/" + ForeignBucket}:                                        false,
		{"oauth2.googleapis.com", "/token"}:                                                     true,
		{"europe-docker.pkg.dev", "/v2/"}:                                                       true,
		{trim(SharingHost), "/x"}:                                                               false,
		{"attacker.test", "/" + OwnBucket}:                                                      false,
		{"evilgoogleapis.com", "/"}:                                                             false,
	} {
		assert.Equal(t, want, Guarded(request[0], request[1]), "%v", request)
	}
}

func TestTheRestrictedFrontEndIsApartFromTheSharedOne(t *testing.T) {
	restricted, ok := Zone{}.Resolve(RestrictedHost)
	require.True(t, ok)
	for _, a := range restricted {
		assert.True(t, IsRestricted(a), a)
	}
	for _, a := range SharedFrontEnd() {
		assert.False(t, IsRestricted(a), a)
	}
	assert.False(t, IsRestricted(netip.MustParseAddr("203.0.113.66")))
}
