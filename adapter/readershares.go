package adapter

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// readerShares are places of a limit, of which each reader has a share. Any goroutine may call its methods.
type readerShares struct {
	most int // in all
	each int // of one reader; 0: three times what is left

	mu    sync.Mutex // guards the fields below
	taken int
	of    map[string]int // by reader
}

// timesLeft bounds a share to a multiple of what is left: a reader that does not read its answers leaves a quarter to
// others, and a second one a sixteenth.
const timesLeft = 3

func newReaderShares(most, each int) *readerShares {
	return &readerShares{most: most, each: each, of: map[string]int{}}
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

// take takes a place until give, or says why there is none.
func (s *readerShares) take(reader, what string) (full string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, each := s.of[reader], s.each
	if each == 0 {
		each = timesLeft * (s.most - s.taken)
	}
	switch {
	case s.taken >= s.most:
		return fmt.Sprintf("%d %s are in flight, which is the limit; retry later", s.most, what)
	case own >= each:
		return fmt.Sprintf("%d %s are in flight, %d of them of this reader, who must leave places to others; retry later",
			s.taken, what, own)
	}
	s.taken++
	s.of[reader]++
	return ""
}

// give gives a place back.
func (s *readerShares) give(reader string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.of[reader]--; s.of[reader] == 0 {
		delete(s.of, reader)
	}
}
