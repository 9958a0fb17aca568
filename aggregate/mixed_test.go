package aggregate

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Objects of one list that have a metric in different kinds: most of them decide what the bare name
// means, a stat is read from those whose kind has it, and the log says who is absent.
func TestMixedKinds(t *testing.T) {
	start(t, func(f *fixture) {
		var logged strings.Builder
		f.mixed.log = slog.New(slog.NewTextHandler(&logged, nil))
		f.push("m:5|g|#pod:a,ns:ns") // sorts first
		f.push("m:10|c|#pod:b,ns:ns", "m:20|c|#pod:c,ns:ns", "m:7|ms|#pod:d,ns:ns")
		f.want("m", "b=1 c=2") // before: a=5
		f.want("m:total", "b=10 c=20")
		f.want("m:last", "a=5")
		f.want("m:count", "b=10 c=20 d=1") // each as its kind counts
		f.want("m:mean", "a=5 d=7")
		f.want("m:p50", "d=7")
		f.want("m:1m", "b=1 c=2")
		f.want("m:unique", `"m" is a counter: it has rate, count, total, but no unique`)
		if n := strings.Count(logged.String(), "level=WARN"); n != 1 || !strings.Contains(logged.String(),
			`metric=m resource=pods namespace=ns read="counter on 2" absent="gauge on 1, timer on 1"`) {
			t.Errorf("%d warnings: %s", n, logged.String())
		}
		time.Sleep(time.Second)
		f.push("m:5|g|#pod:e,ns:ns") // as many gauges, and the newer
		f.want("m", "a=5 e=5")
		time.Sleep(time.Second)
		f.push("m:1|c|#pod:f,ns:ns")
		if got := f.ask("m:total"); got != "b=10 c=20 f=1" || !strings.HasPrefix(f.ask("m"), "b=") {
			t.Errorf("%s, %s", got, f.ask("m"))
		}
		time.Sleep(2 * time.Hour) // all expire; what comes then is alone
		f.push("m:5|g|#pod:a,ns:ns")
		f.want("m", "a=5")
		f.push("only:1|g|#pod:a,ns:ns", "only:1|g|#pod:b,ns:ns")
		f.want("only", "a=1 b=1")
		if n := strings.Count(logged.String(), "metric=only"); n != 0 {
			t.Error(logged.String())
		}
	})
}
