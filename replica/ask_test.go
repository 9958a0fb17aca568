package replica

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A question is answered by all replicas that are asked and there, in whatever size; one that is not there costs the deadline.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange()
		a, b, c := join(t, e, "a"), join(t, e, "b"), join(t, e, "c")
		large := bytes.Repeat([]byte("x"), 3*maxPiece)
		b.replica.parts.Answer = func([]byte) []byte { return large }
		time.Sleep(2 * time.Second)
		ask := func(question string, names ...string) (map[string][]byte, time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			return a.replica.Ask(ctx, names, []byte(question)), time.Since(began)
		}
		got, took := ask("hello", "b", "c")
		if len(got) != 2 || !bytes.Equal(got["b"], large) || string(got["c"]) != "c says hello" || took >= time.Second {
			t.Errorf("%d answers after %v, %q of c", len(got), took, got["c"])
		}
		got, took = ask("again", "c", "nobody")
		if len(got) != 1 || string(got["c"]) != "c says again" || took != time.Second {
			t.Errorf("%q after %v, want c's answer once the deadline is over", got, took)
		}
		if got, _ := ask(strings.Repeat("x", maxQuestion+1), "c"); got != nil {
			t.Error("a question that is too long is asked")
		}
		if got, _ := ask("nobody"); got != nil {
			t.Error("nobody has answered")
		}
		if held := a.replica.asks.budget.held.Load(); held != 0 || len(a.replica.asks.open) != 0 {
			t.Errorf("%d bytes of answers are held", held)
		}
		for _, m := range []*member{a, b, c} {
			m.stop()
			<-m.ended
		}
	})
}

// Questions and answers that no replica made cost bounded memory, and change nothing.
func TestForgedQuestions(t *testing.T) {
	w := newUsageWorld(t, 1)
	w.run(3 * time.Second)
	n, stranger := w.nodes[0], w.fabric.open()
	n.replica.parts.Answer = func([]byte) []byte { return nil }
	number, q := n.replica.asks.begin([]string{"origin-1"})
	send := func(subject string, kind messageType, pieces, piece int, letter uint64, body []byte) {
		h := header{kind: kind, sender: sender{"stranger", 1, 1}, letter: letter, piece: piece, pieces: pieces}
		_ = stranger.Publish(subject, append(h.append(nil), body...))
		w.run(time.Millisecond)
	}
	want, synced := newSubjects("test").of(wantOf, "origin-0"), newSubjects("test").of(syncedOf, "origin-0", "stranger")
	send(want, typeAsk, 1, 0, 1, nil)
	send(want, typeAsk, 1, 0, 2, make([]byte, 2*maxQuestion))
	send(want, typeAsk, 2, 0, 3, make([]byte, maxPiece))
	for letter := range uint64(3 * maxQuestions) {
		h := header{kind: typeAsk, sender: sender{"stranger", 1, 1}, letter: letter, pieces: 1}
		_ = stranger.Publish(want, append(h.append(nil), 1))
	}
	w.run(time.Second)
	send(synced, typeAnswer, 1, 0, 4, nil)
	send(synced, typeAnswer, 1, 0, 5, []byte{byte(number), 'x'}) // who was not asked
	for letter := range uint64(300) {
		send(synced, typeAnswer, 2, 0, 6+letter, make([]byte, maxPiece))
	}
	if held := n.replica.asks.budget.held.Load(); held > maxAnswersHold {
		t.Errorf("answers hold %d bytes, want %d at most", held, maxAnswersHold)
	}
	if len(q.answers) != 0 {
		t.Errorf("answers %q of a stranger", q.answers)
	}
	n.replica.asks.end(number)
	if rejected := &n.replica.count.rejected; rejected.counts[reasonDamaged] != 4 || rejected.counts[reasonFlood] == 0 {
		t.Errorf("rejected: %v, want 4 that are damaged, and a flood", rejected.counts)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
