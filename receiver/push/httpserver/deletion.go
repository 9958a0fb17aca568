package httpserver

import "time"

// A deletion has its place for deletionRests times as long after its work as that took, but no longer than deletionRest. Other
// replicas repeat the work between what else they hear from this one, so that has three quarters of their time. Without
// others there is no rest.
const (
	deletionRests = 3
	deletionRest  = time.Second
)

// BeginDeletion waits for the place of deletions, until end is called. Namespaces, or else senders, take turns.
func (x *Request) BeginDeletion() (end func(), f *Fault) {
	share, place := x.ShareName(), x.server.deletions
	if place.AwaitFor(x.context(), placePatience, share) != nil {
		return nil, tooCrowded("more deletions wait than replicas can repeat")
	}
	began := time.Now()
	end = func() {
		if x.server.replicas == nil {
			place.Give(share)
			return
		}
		rest := min(deletionRests*time.Since(began), deletionRest)
		time.AfterFunc(rest, func() { place.Give(share) })
	}
	x.origin.Reset()
	if f := x.checkHolder(false); f != nil { // the address is another pod's meanwhile
		end()
		return nil, f
	}
	return end, nil
}
