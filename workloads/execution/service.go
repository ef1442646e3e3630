// SPDX-License-Identifier: Apache-2.0

package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Exec runs a program in a Pod's only container and returns its exit code. An
// error means that it is not known how the program ended.
type Exec func(ctx context.Context, pod *corev1.Pod, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error)

// Timeouts names the waits of a run; zero fields take their default.
type Timeouts struct {
	// Start is how long a Pod may take until its container runs; 60 s.
	Start time.Duration
	// Run is how long the program may run; 10 s.
	Run time.Duration
	// Remove bounds the removal of the Pod, also after the caller left; 10 s.
	Remove time.Duration
	// List bounds one listing of the namespace's Pods; 5 s.
	List time.Duration
}

// Options of a service.
type Options struct {
	Client    kubernetes.Interface
	Exec      Exec
	Namespace string
	Template  *Template
	// MaxOutput bounds standard output and standard error each, in bytes; 0
	// means 64 KiB.
	MaxOutput int
	Timeouts  Timeouts
}

// Service runs programs. It is safe for concurrent use.
type Service struct {
	o Options

	mu sync.Mutex
	// next is where the search for a free user id begins; given are those that
	// were handed out and may not be seen in the cluster yet, by Pod.
	next  int64
	given map[string]int64
	// running are the Pods of [Service.Run] that somebody waits for.
	running map[string]bool
}

// OwnLabel is on the Pods of [Service.Run] and on no others. One of them that
// no run waits for was left behind: see [Service.Sweep].
const OwnLabel = "stockade.dev/execution-run"

// New returns a service.
func New(o Options) (*Service, error) {
	if o.Client == nil || o.Namespace == "" || o.Template == nil {
		return nil, errors.New("making the execution service: a client, a namespace and a template are needed")
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Timeouts.Start, time.Minute)
	def(&o.Timeouts.Run, 10*time.Second)
	def(&o.Timeouts.Remove, 10*time.Second)
	def(&o.Timeouts.List, 5*time.Second)
	if o.MaxOutput <= 0 {
		o.MaxOutput = 64 << 10
	}
	s := &Service{o: o, given: map[string]int64{}, running: map[string]bool{}}
	if t := o.Template; t.last > 0 {
		// Not always the same ids again after each restart.
		s.next = t.first + rand.Int64N(t.last-t.first+1) //nolint:gosec // no secret
	}
	return s, nil
}

// ErrBusy means that no more runs can be started now: the quota is used up, or
// every user id is taken.
var ErrBusy = errors.New("no more runs can be started now")

// Start creates the Pod of a run under a name, with a user id that no other Pod
// of the namespace has. It does not wait for it. The Pod lives until it is
// removed.
func (s *Service) Start(ctx context.Context, name string, labels map[string]string) (*corev1.Pod, error) {
	return s.start(ctx, name, labels, nil)
}

// start is [Service.Start], with the seconds after which the kubelet ends the
// Pod by itself; nil is never.
func (s *Service) start(ctx context.Context, name string, labels map[string]string, life *int64) (*corev1.Pod, error) {
	uid, err := s.reserve(ctx, name)
	if err != nil {
		return nil, err
	}
	pod := s.o.Template.Pod(s.o.Namespace, name, uid, labels)
	pod.Spec.ActiveDeadlineSeconds = life
	p, err := s.o.Client.CoreV1().Pods(s.o.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		s.release(name)
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota") {
			return nil, fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return nil, fmt.Errorf("creating the Pod of run %s: %w", name, err)
	}
	return p, nil
}

// reserve picks a user id for a Pod.
func (s *Service) reserve(ctx context.Context, name string) (int64, error) {
	t := s.o.Template
	if t.last == 0 {
		return 0, nil
	}
	// Held over the request, whose time is bounded for that: of two at once, the
	// second must see the first's.
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.list(ctx, "")
	if err != nil {
		return 0, fmt.Errorf("listing the user ids in use: %w", err)
	}
	used := map[int64]bool{}
	for i := range list.Items {
		used[uidOf(&list.Items[i])] = true
	}
	for _, uid := range s.given {
		used[uid] = true
	}
	span := t.last - t.first + 1
	for range span {
		uid := s.next
		// Onwards and not back to the last one that became free: its files may
		// still be somewhere.
		s.next = t.first + (s.next-t.first+1)%span
		if !used[uid] {
			s.given[name] = uid
			return uid, nil
		}
	}
	return 0, fmt.Errorf("%w: all %d user ids are taken", ErrBusy, span)
}

func (s *Service) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.given, name)
}

func (s *Service) list(ctx context.Context, selector string) (*corev1.PodList, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeouts.List)
	defer cancel()
	return s.o.Client.CoreV1().Pods(s.o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
}

// Sweep removes the Pods of runs that nobody waits for: those of a service that
// was killed before it could, and those whose removal failed. Without it a few
// of them would use up the namespace's quota for good.
func (s *Service) Sweep(ctx context.Context) error {
	list, err := s.list(ctx, OwnLabel)
	if err != nil {
		return fmt.Errorf("listing the Pods of runs: %w", err)
	}
	var errs []error
	for i := range list.Items {
		name := list.Items[i].Name
		s.mu.Lock()
		awaited := s.running[name]
		s.mu.Unlock()
		if !awaited {
			errs = append(errs, s.Remove(ctx, name))
		}
	}
	return errors.Join(errs...)
}

// Await waits until the container of a run's Pod runs.
func (s *Service) Await(ctx context.Context, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeouts.Start)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		p, err := s.o.Client.CoreV1().Pods(s.o.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("waiting for the Pod of run %s: %w", name, err)
		case err != nil && ctx.Err() == nil:
			// A busy API server may refuse for a while.
		case err == nil && p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil:
			return p, nil
		case err == nil && (p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded):
			return nil, fmt.Errorf("waiting for the Pod of run %s: it ended before the run began: %s %s", name, p.Status.Reason, p.Status.Message)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the Pod of run %s: %w", name, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// pollEvery is how often a Pod is asked for: a dozen at once must not use up
// the client's requests.
const pollEvery = 200 * time.Millisecond

// Remove deletes the Pod of a run, at once and with all that runs in it, and
// tries again while it is refused. One that is gone already is no error. It does
// not wait until the Pod is gone, which takes the second of grace and more.
func (s *Service) Remove(ctx context.Context, name string) error {
	// Also when the caller has left: what runs there is a stranger's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeouts.Remove)
	defer cancel()
	defer s.release(name)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	grace := int64(1) // seconds; 0 would not wait for the kubelet
	for {
		err := s.o.Client.CoreV1().Pods(s.o.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing the Pod of run %s: %w", name, err)
		case <-tick.C:
		}
	}
}

// Run runs a program in a Pod of its own and tells how it ended. An error means
// that it could not be told: whatever the program does is a Result.
func (s *Service) Run(ctx context.Context, p Program) (r Result, err error) {
	argv, err := p.argv()
	if err != nil {
		return Result{}, err
	}
	limits, err := s.o.Template.Limits(p.Language)
	if err != nil {
		return Result{}, err
	}
	if s.o.Exec == nil {
		return Result{}, errors.New("running a program: the service has no way into its Pods")
	}
	s.awaited(p.Name, true)
	defer s.awaited(p.Name, false)
	// Before the Pod is asked for: an answer that is lost may be of one that was
	// made.
	defer func() { err = errors.Join(err, s.Remove(ctx, p.Name)) }()
	if _, err := s.start(ctx, p.Name, map[string]string{OwnLabel: "true"}, s.life()); err != nil {
		return Result{}, err
	}
	pod, err := s.Await(ctx, p.Name)
	if err != nil {
		return Result{}, err
	}
	rctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	rctx, cancel := context.WithTimeout(rctx, s.o.Timeouts.Run)
	defer cancel()
	flooded := func() { stop(errFlooded) }
	out, errs := &head{max: s.o.MaxOutput, flooded: flooded}, &head{max: s.o.MaxOutput, flooded: flooded}
	began := time.Now()
	code, execErr := s.o.Exec(rctx, pod, Command(limits, argv), p.input(), out, errs)
	e := ending{
		language: p.Language, code: code, stderr: errs.end(), cut: out.cut() || errs.cut(),
		late:    errors.Is(context.Cause(rctx), context.DeadlineExceeded) && ctx.Err() == nil,
		flooded: errors.Is(context.Cause(rctx), errFlooded),
	}
	if execErr != nil && !e.late && !e.flooded {
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		// An exec that is lost may have lost its sandbox.
		if e.killed, e.oom = s.fate(ctx, p.Name); !e.killed {
			return Result{}, fmt.Errorf("running the program of %s: %w", p.Name, execErr)
		}
	}
	return Result{
		Status: e.status(), ExitCode: e.exit(), Stdout: out.String(), Stderr: errs.String(),
		UID: uidOf(pod), Millis: time.Since(began).Milliseconds(),
	}, nil
}

func (s *Service) awaited(name string, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is {
		s.running[name] = true
	} else {
		delete(s.running, name)
	}
}

// life is after how many seconds the kubelet ends the Pod of a run, should the
// service not be there to do it: all that a run may take, and half as much again.
func (s *Service) life() *int64 {
	t := s.o.Timeouts
	seconds := int64(((t.Start + t.Run + t.Remove) * 3 / 2).Seconds()) + 1
	return &seconds
}

// fate tells whether a run's container was ended from outside.
func (s *Service) fate(ctx context.Context, name string) (killed, oom bool) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeouts.Remove)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		p, err := s.o.Client.CoreV1().Pods(s.o.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(p.Status.ContainerStatuses) > 0 {
			if t := p.Status.ContainerStatuses[0].State.Terminated; t != nil {
				return true, t.Reason == "OOMKilled"
			}
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-tick.C:
		}
	}
}

// errFlooded ends a program that says far more than is kept: all of it would
// still go through the kubelet, the API server and this service.
var errFlooded = errors.New("the output is far larger than is kept")

// head keeps the first bytes of a stream, and the last few, and swallows the
// rest: the last line says how a program ended, however much it said before.
// flooded is called when far more came than is kept.
type head struct {
	max     int
	flooded func()

	mu   sync.Mutex
	buf  bytes.Buffer
	last []byte
	all  int64
}

const (
	maxLast = 1 << 10 // bytes
	// maxBeyond is how many bytes may come beyond those that are kept.
	maxBeyond = 1 << 20
)

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all += int64(len(p))
	h.buf.Write(p[:min(len(p), h.max-h.buf.Len())])
	h.last = append(h.last, p[max(0, len(p)-maxLast):]...)
	h.last = slices.Clone(h.last[max(0, len(h.last)-maxLast):])
	if h.all > int64(h.max)+maxBeyond {
		h.flooded()
	}
	return len(p), nil
}

func (h *head) cut() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all > int64(h.max)
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

func (h *head) end() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.last)
}
