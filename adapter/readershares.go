package adapter

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/sluice-metrics/sluice/internal/fair"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// readerShares are places of a limit, of which each reader has a share. Any goroutine may call its methods.
type readerShares struct {
	most int // in all
	each int // of one reader; 0: three times what is left

	mu    sync.Mutex               // guards the fields below
	taken fair.Shares[string, int] // by reader
}

func newReaderShares(most, each int) *readerShares {
	return &readerShares{most: most, each: each}
}

// sharing makes places.
type sharing func(most int) *readerShares

// byReader shares places between readers, unshared lets one have all.
func byReader(most int) *readerShares { return newReaderShares(most, 0) }
func unshared(most int) *readerShares { return newReaderShares(most, most) }

// shareOf names all readers of a namespace, whose author may have many accounts, or else the user.
func shareOf(ctx context.Context) string {
	who, known := request.UserFrom(ctx)
	if !known { // before authentication
		return ""
	}
	if account, is := strings.CutPrefix(who.GetName(), accountPrefix); is {
		namespace, _, _ := strings.Cut(account, ":")
		return accountPrefix + namespace
	}
	return who.GetName()
}

// largest is what a reader may have of all places if no other has any.
func (s *readerShares) largest() int {
	if s.each == 0 {
		return fair.More(0, s.most)
	}
	return s.each
}

// take takes n places until give, or says why there are none. Whoever is alone has them in any case.
func (s *readerShares) take(reader string, n int, what string) (full string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, taken := s.taken.Of(reader), s.taken.Held()
	more := s.each - own
	if s.each == 0 {
		more = s.taken.More(reader, s.most)
	}
	switch {
	case taken == 0:
	case n > s.most-taken:
		return fmt.Sprintf("%d %s are in flight, of %d at most; retry later", taken, what, s.most)
	case n > more:
		return fmt.Sprintf("%d %s are in flight, %d of them of this reader, who must leave places to others; retry later",
			taken, what, own)
	}
	s.taken.Add(reader, n)
	return ""
}

// give gives places back.
func (s *readerShares) give(reader string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken.Add(reader, -n)
}
