package credential

import (
	"context"
	"time"
)

// lookEvery is the polling interval of files.
const lookEvery = 5 * time.Second

// PollFiles calls load periodically until ctx ends; load reads files and reports whether their
// content has changed. Then changed is called. An error is passed to failed, once until it changes.
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
