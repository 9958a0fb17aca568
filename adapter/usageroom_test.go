package adapter

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/aggregate/usage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// manyUsage is a fakeUsage of as many pods and nodes.
type manyUsage struct {
	fakeUsage
	n, containers int
}

func (u manyUsage) Pods(string, string, labels.Selector) (all []usage.Pod) {
	for i := range u.n {
		all = append(all, usage.Pod{Namespace: "shop", Name: fmt.Sprint("a-pod-of-some-name-", i), Labels: someLabels, LabelBytes: 500})
	}
	return all
}

func (u manyUsage) Containers(pod *usage.Pod) (all []usage.Record) {
	for range u.containers {
		all = append(all, u.record(pod))
	}
	return all
}

func (u manyUsage) Served(pod *usage.Pod) ([]usage.Record, time.Time, time.Duration, bool) {
	return u.Containers(pod), noon, 10 * time.Second, true
}

func (u manyUsage) Nodes(string, labels.Selector) (all []UsedNode, err error) {
	for i := range u.n {
		r := u.record(&usage.Pod{})
		all = append(all, UsedNode{Name: fmt.Sprint("a-node-of-some-name-", i), Labels: someLabels(), Record: &r})
	}
	return all, nil
}

// someLabels are ten, of 50 bytes each.
func someLabels() map[string]string {
	all := map[string]string{}
	for i := range 10 {
		all[fmt.Sprint("app.kubernetes.io/a-label-", i)] = "of-some-value-of-23-byte"
	}
	return all
}

// usageAnswers are answers about usage, of as many objects, or of one with as many containers.
var usageAnswers = map[string]func(ctx context.Context, n int) (runtime.Object, error){
	"pods": func(ctx context.Context, n int) (runtime.Object, error) { return (&podUsage{many(n)}).List(ctx, nil) },
	"derived pods": func(ctx context.Context, n int) (runtime.Object, error) {
		return (&derivedPods{usageStorage: many(n)}).List(ctx, nil)
	},
	"nodes": func(ctx context.Context, n int) (runtime.Object, error) { return (&nodeUsage{many(n)}).List(ctx, nil) },
	"derived nodes": func(ctx context.Context, n int) (runtime.Object, error) {
		return (&derivedNodes{usageStorage: many(n)}).List(ctx, nil)
	},
	"one pod": func(ctx context.Context, n int) (runtime.Object, error) {
		return (&podUsage{usageStorage{source: manyUsage{n: 1, containers: n}}}).Get(ctx, "a", nil)
	},
	"one derived pod": func(ctx context.Context, n int) (runtime.Object, error) {
		return (&derivedPods{usageStorage: usageStorage{source: manyUsage{n: 1, containers: n}}}).Get(ctx, "a", nil)
	},
}

func many(n int) usageStorage { return usageStorage{source: manyUsage{n: n, containers: 3}} }

// Answers about usage that a reader reads slowly leave memory to others, as other large answers do, until they are written.
func TestSlowReadersOfUsage(t *testing.T) {
	for name, ask := range usageAnswers {
		synctest.Test(t, func(t *testing.T) {
			const n = 1000
			q := newAnswerQueue(Config{MaxInFlight: 100, RequestTimeout: 2 * time.Minute}, byReader)
			answer := func(reader string, n int) (*ticket, error) {
				one := &ticket{queue: q, reader: reader}
				_, err := ask(context.WithValue(t.Context(), ticketKey{}, one), n)
				return one, err
			}
			slow, err := answer("slow", n)
			must(t, err)
			held := q.reserved.taken.Held()
			if held < n*servedBytes/pointBytes || q.collecting {
				t.Errorf("%s: %d points are reserved until an answer of %d is written; another one can be made: %t", name, held, n, !q.collecting)
			}
			q.reserved.most = 3 * held
			for _, c := range []struct {
				reader string
				n      int
				want   bool
			}{{"slow", 2 * n, false}, {"slow", n, true}, {"slow", 10, true}, {"other", n, true}} {
				one, err := answer(c.reader, c.n)
				if err == nil != c.want || err != nil && !apierrors.IsTooManyRequests(err) {
					t.Errorf("%s: one more answer of %d to %s: %v", name, c.n, c.reader, err)
				}
				one.release()
			}
			slow.release()
			if q.reserved.taken.Held() != 0 || q.answers.taken.Held() != 0 {
				t.Errorf("%s: %d points of %d answers are left", name, q.reserved.taken.Held(), q.answers.taken.Held())
			}
		})
	}
}

// Of lists that are made at once, one is, and the pods of others are selected once it is their turn.
func TestListsOfUsageAreMadeOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newAnswerQueue(Config{MaxInFlight: 8, RequestTimeout: time.Minute}, unshared)
		first := &ticket{queue: q}
		must(t, first.admit(t.Context(), valuelist.MaxSmall+1))
		s := many(1000)
		selections := 0
		ctx := context.WithValue(t.Context(), ticketKey{}, &ticket{queue: q})
		var waiting sync.WaitGroup
		waiting.Go(func() {
			pods, made, err := s.admitPods(ctx, derivedBytes, func() []usage.Pod {
				selections++
				return s.source.Pods("", "", nil)
			})
			if must(t, err); len(pods) != 1000 {
				t.Errorf("%d pods", len(pods))
			}
			made()
		})
		synctest.Wait()
		if selections != 1 {
			t.Errorf("pods were selected %d times", selections)
		}
		first.release()
		waiting.Wait()
		if ticketOf(ctx).release(); selections != 2 {
			t.Errorf("pods were selected %d times", selections)
		}
	})
}

// An answer about usage takes about as much memory as it counts as, or less.
func TestMemoryOfUsage(t *testing.T) {
	const n = 4000
	for name, ask := range usageAnswers {
		one := &ticket{queue: newAnswerQueue(Config{MaxInFlight: 8, RequestTimeout: time.Minute}, unshared)}
		liveHeap() // a pool keeps what it has for a collection more
		before := liveHeap()
		answer, err := ask(context.WithValue(t.Context(), ticketKey{}, one), n)
		must(t, err)
		took, counts := liveHeap()-before, int64(one.reserved*pointBytes)
		goruntime.KeepAlive(answer)
		t.Logf("%s: %d bytes each, counted as %d", name, took/n, counts/n)
		if took > counts*5/4 {
			t.Errorf("%s: %d bytes each, counted as %d", name, took/n, counts/n)
		}
		one.release()
	}
}

// An answer that is larger than all may be together leaves others their part until it is written.
func TestAnAnswerLargerThanAllLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newAnswerQueue(Config{MaxInFlight: 100, RequestTimeout: 2 * time.Minute}, byReader)
		slow, other := &ticket{queue: q, reader: "slow"}, &ticket{queue: q, reader: "other"}
		must(t, slow.admit(t.Context(), 2*maxReserved))
		slow.keep(2 * maxReserved)
		if err := other.admit(t.Context(), maxReserved/8); err != nil {
			t.Error(err)
		}
		slow.release()
		other.release()
		if held := q.reserved.taken.Held(); held != 0 {
			t.Errorf("%d points are left", held)
		}
	})
}
