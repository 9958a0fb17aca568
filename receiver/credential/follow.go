package credential

import (
	"context"
	"time"
)

// lookEvery is how often files are looked at.
const lookEvery = 5 * time.Second

// Follow calls load again and again until ctx ends; load reads files, and reports whether they say something else than
// before. Then changed is called. What went wrong is told to failed, once until it is something else.
func PollFiles(ctx context.Context, load func() (changed bool, err error), changed func(), failed func(error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		news, err := load()
		switch {
		case err == nil:
			if told = ""; news {
				changed()
			}
		case err.Error() != told:
			told = err.Error()
			failed(err)
		}
	}
}
