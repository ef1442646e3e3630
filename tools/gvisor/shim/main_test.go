// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/containerd/containerd/namespaces"
	"github.com/containerd/containerd/runtime/v2/shim"
	"golang.org/x/sys/unix"
)

func TestCapabilityIsReadAsTheKernelShowsIt(t *testing.T) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`CapEff:\s*([0-9a-f]+)`).FindSubmatch(status)
	if m == nil {
		t.Fatal("the kernel shows no capabilities")
	}
	effective, err := strconv.ParseUint(string(m[1]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if want := effective>>unix.CAP_SYS_RESOURCE&1 == 1; hasSysResource() != want {
		t.Errorf("hasSysResource() = %t, the kernel says %t", !want, want)
	}
}

func TestServiceIsStartedWithWhatContainerdGaveTheStarter(t *testing.T) {
	ctx := namespaces.WithNamespace(context.Background(), "k8s.io")
	opts := shim.StartOpts{ID: "pod", Address: "/run/sock", ContainerdBinary: "/bin/containerd"}
	cmd, err := (&unprivileged{debug: true}).command(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-namespace", "k8s.io", "-address", "/run/sock", "-publish-binary", "/bin/containerd", "-debug"}
	if !slices.Equal(cmd.Args[1:], want) {
		t.Errorf("arguments %q, want %q", cmd.Args[1:], want)
	}
	if slices.Contains(cmd.Args, "start") {
		t.Error("the service must not be a starter again")
	}
	if !cmd.SysProcAttr.Setpgid {
		t.Error("a signal to containerd's group would end the Pod")
	}
}

func TestContainerdHasToNameItsNamespace(t *testing.T) {
	if _, err := (&unprivileged{}).command(context.Background(), shim.StartOpts{}); err == nil {
		t.Error("no error without a namespace")
	}
}
