package adapter

import (
	"context"
	"net/http"
	"sync"

	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/fair"
	"k8s.io/client-go/util/flowcontrol"
)

// reviewPace limits the rate of questions to the API server. One at a time waits for the limiter, in turns of the shares,
// and the others can leave the line. In client-go's limiter all of them wait, each with a reservation, and of those that
// are cancelled it takes back the newest alone: a client that cancels requests without end would make all others wait
// beyond their deadlines.
type reviewPace struct {
	flowcontrol.RateLimiter
	line  *fair.Turns[string]
	share func(context.Context) string
}

func newReviewPace(perSecond float32, burst int, share func(context.Context) string) *reviewPace {
	return &reviewPace{flowcontrol.NewTokenBucketRateLimiter(perSecond, burst), fair.NewTurns[string](1, 1), share}
}

// oneShare is that of all whose number has a limit elsewhere.
func oneShare(context.Context) string { return "" }

// Wait implements flowcontrol.RateLimiter.
func (p *reviewPace) Wait(ctx context.Context) error {
	share := p.share(ctx)
	if err := p.line.Await(ctx, share); err != nil {
		return err
	}
	defer p.line.Give(share)
	return p.RateLimiter.Wait(ctx)
}

// rightsPace is the pace of SubjectAccessReviews: of clients that connect themselves, by address, and of those of the
// front proxy, by reader. Those have passed the API server, which limits them, too, and the autoscalers' are among them.
type rightsPace struct {
	*reviewPace
	proxied *reviewPace
}

func newRightsPace() *rightsPace {
	return &rightsPace{newReviewPace(decisionsPerSecond, decisionBurst, addressOf),
		newReviewPace(proxiedPerSecond, proxiedBurst, shareOf)}
}

// proxiedPerSecond and proxiedBurst leave the autoscalers as many as one reader who asks without end has.
const proxiedPerSecond, proxiedBurst = 500, 1000

// Wait implements flowcontrol.RateLimiter.
func (p *rightsPace) Wait(ctx context.Context) error {
	if from, known := ctx.Value(originKey{}).(*origin); known && from.proxied() {
		return p.proxied.Wait(ctx)
	}
	return p.reviewPace.Wait(ctx)
}

// origin is where a request comes from. proxied checks a certificate, so it is called only where a review is needed.
type origin struct {
	address string
	proxied func() bool
}

type originKey struct{}

func (a access) withOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := &origin{connlimit.Prefix(r.RemoteAddr).String(), sync.OnceValue(func() bool { return a.fromProxy(r) })}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), originKey{}, from)))
	})
}

// addressOf is the address that a request came from.
func addressOf(ctx context.Context) string {
	if from, known := ctx.Value(originKey{}).(*origin); known {
		return from.address
	}
	return ""
}
