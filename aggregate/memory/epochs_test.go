package memory

import "testing"

// E1, E2: memory that was unlinked in an epoch is reusable once every online writer was quiescent
// since, and not before. Writers that are offline hold nothing back.
func TestEpochsWaitForOnlineWriters(t *testing.T) {
	var e Epochs
	slots := make([]*WriterSlot, 100) // more than a group has
	for i := range slots {
		slots[i] = e.Register()
	}
	unlinked := e.Advance()
	for i, slot := range slots {
		if e.Quiesced() >= unlinked {
			t.Fatalf("reusable although only %d of %d writers were quiescent", i, len(slots))
		}
		switch i % 3 {
		case 0:
			slot.Quiesce(&e)
		case 1:
			slot.Offline()
		default:
			e.Unregister(slot)
		}
	}
	if got := e.Quiesced(); got < unlinked {
		t.Errorf("epoch %d is quiescent, want %d", got, unlinked)
	}
	unlinked = e.Advance()
	slots[1].Online(&e)
	slots[0].Offline()
	for i := 3; i < len(slots); i += 3 {
		slots[i].Quiesce(&e)
	}
	if got := e.Quiesced(); got < unlinked {
		t.Errorf("epoch %d is quiescent, want %d: a writer that came online later found nothing unlinked", got, unlinked)
	}
}

// AwaitExits waits for the writers that are in a critical section, and for no other.
func TestAwaitExits(t *testing.T) {
	var e Epochs
	in, out := e.Register(), e.Register()
	in.Enter()
	in.Enter()
	done := make(chan struct{})
	go func() {
		e.AwaitExits()
		close(done)
	}()
	out.Enter()
	out.Exit()
	in.Exit()
	select {
	case <-done:
		t.Error("a writer is still in its critical section")
	default:
	}
	in.Exit()
	<-done
}
