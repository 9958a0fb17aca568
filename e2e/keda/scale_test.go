package keda

import (
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func replicasOf(object runtime.Object) (int32, bool) {
	one, ok := object.(*apps.Deployment)
	if !ok || one.Spec.Replicas == nil {
		return 0, false
	}
	return *one.Spec.Replicas, true
}

// pushed bounds the time from a push to the first replica: far above what an idle machine takes, since the
// operator may drop the first trues just after the last replica has gone. Tests that want no poll's help poll
// every 300 s.
const pushed = 2 * time.Minute

// From none to one on the push, to as many as the sum of all label sets says, and back to none.
func TestScalesFromZeroAndBack(t *testing.T) {
	t.Parallel()
	s := prepare(t, "zero")
	s.scaleByPush(t, 10, 5)
	s.steady(t, 0, 2*time.Second)
	took := s.woken(t, pushed, func() {
		s.push(t, "jobs:20|g|#sluice_object:external,queue:mail\njobs:15|g|#sluice_object:external,queue:print")
	})
	t.Logf("from the datagram to the first replica: %s", took)
	s.awaitReplicas(t, 4)
	s.push(t, "jobs:0|g|#sluice_object:external,queue:mail\njobs:5|g|#sluice_object:external,queue:print")
	s.awaitReplicas(t, 1)
	s.push(t, "jobs:0|g|#sluice_object:external,queue:print")
	s.awaitReplicas(t, 0)
	s.woken(t, pushed, func() { s.push(t, "jobs:1|g|#sluice_object:external,queue:print") })
}

// Without a sample the trigger reads 0: KEDA polls it without an error, and the stream is there for
// the first push.
func TestNeverPushedReadsZero(t *testing.T) {
	t.Parallel()
	s := prepare(t, "absent")
	s.scaleByPush(t, 2, 5)
	s.steady(t, 0, 7*time.Second) // three polls
	s.noWarnings(t)
	s.scaleByPush(t, 300, 5) // no poll comes before the stream's news
	time.Sleep(time.Second)
	s.woken(t, pushed, func() { s.push(t, jobs(35)) })
	s.awaitReplicas(t, 4)
}

// Without a sample the trigger is an error, which KEDA shows. It neither scales nor forgets the
// trigger: a poll after the first sample finds it.
func TestNeverPushedIsAnError(t *testing.T) {
	t.Parallel()
	s := prepare(t, "error")
	s.scale(t, scaledObject{2, 5, []string{s.trigger(`metric: "jobs:last"`, `absent: error`)}})
	s.awaitEvent(t, "KEDAScalerFailed", "NotFound", `absent: "0"`)
	s.awaitReady(t, "False")
	s.steady(t, 0, 4*time.Second)
	t.Logf("after the push: %s", s.woken(t, 10*time.Second, func() { s.push(t, jobs(35)) }))
	s.awaitReplicas(t, 4)
	s.awaitReady(t, "True")
}

// A trigger that fails stops neither the polls nor the pushes of another.
func TestOneOfTwoTriggersFails(t *testing.T) {
	t.Parallel()
	s := prepare(t, "two")
	s.scale(t, scaledObject{10, 5, []string{
		s.trigger(`metric: "jobs:last"`, `absent: "0"`), s.trigger(`metric: "nobody:last"`),
	}})
	s.awaitEvent(t, "KEDAScalerFailed", "NotFound")
	t.Logf("after the push: %s", s.woken(t, 15*time.Second, func() { s.push(t, jobs(35)) }))
	s.awaitReplicas(t, 4)
}

// A fault of the metadata stands in the Events of the ScaledObject, in words.
func TestWrongMetadata(t *testing.T) {
	t.Parallel()
	s := prepare(t, "wrong")
	s.scale(t, scaledObject{2, 5, []string{s.trigger(`metirc: "jobs:last"`, `activation: many`)}})
	s.awaitEvent(t, "KEDAScalerFailed", "metric is missing", `did you mean "metric"?`, `activation is "many"; must be a number`)
	s.steady(t, 0, 2*time.Second)
	s.scaleByPush(t, 300, 5)
	s.woken(t, pushed, func() { s.push(t, jobs(1)) })
}

// Metadata names no namespace: a trigger reads that of its ScaledObject.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	s, other := prepare(t, "mine"), shared(t).Namespace(t, "theirs")
	s.push(t, jobs(35))
	stranger := *s
	stranger.namespace = other
	stranger.credentials(t, s.authority, operatorName, time.Hour)
	s.Apply(t, other, deployment)
	stranger.scale(t, scaledObject{1, 5, []string{stranger.trigger(`metric: "jobs:last"`, `absent: "0"`)}})
	stranger.awaitReady(t, "True")
	stranger.steady(t, 0, 4*time.Second)
	stranger.scale(t, scaledObject{1, 5, []string{stranger.trigger(`metric: "jobs:last"`, `absent: "0"`, `namespace: `+s.namespace)}})
	stranger.awaitEvent(t, "KEDAScalerFailed", "namespace is unknown")
	stranger.steady(t, 0, 2*time.Second)
	s.scaleByPush(t, 2, 5)
	s.awaitReplicas(t, 4)
}

func (s *scaled) noWarnings(t *testing.T) {
	t.Helper()
	if events := s.events(t); events != "" {
		for _, line := range splitLines(events) {
			if len(line) > 7 && line[:7] == "Warning" {
				t.Errorf("KEDA warns: %s", line)
			}
		}
	}
}

// A push that comes just after the last replica has gone may meet an operator that has not noticed it yet,
// and that drops the news. It gets the news again.
func TestPushJustAfterZero(t *testing.T) {
	t.Parallel()
	s := prepare(t, "after")
	s.scaleByPush(t, 300, 5)
	for range 10 {
		s.push(t, jobs(1))
		s.awaitReplicas(t, 1)
		s.push(t, jobs(0))
		time.Sleep(1500 * time.Millisecond) // the stream has said so
		s.setReplicas(t, 0)
		t.Logf("after the push: %s", s.woken(t, pushed, func() { s.push(t, jobs(1)) }))
	}
}
