package push

import (
	"bufio"
	"strconv"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/sluice-metrics/sluice/receiver/exposition"
	"github.com/sluice-metrics/sluice/receiver/group"
	"github.com/valyala/fasthttp"
)

// expose answers GET /metrics: what the sender may read of all groups.
func (x *exchange) expose() {
	format, escaping := negotiate(x.http.Request.Header.Peek(fasthttp.HeaderAccept))
	groups, f := x.readableGroups()
	if f != nil {
		x.fail(f)
		return
	}
	families := group.MergedFamilies(groups, escaping)
	x.http.SetContentType(format.ContentType() + "; escaping=" + escaping.String())
	x.stream(func(w *bufio.Writer) error {
		var piece []byte
		for i := range families {
			piece = exposition.Append(piece[:0], format, families[i])
			if _, err := w.Write(piece); err != nil {
				return err
			}
		}
		_, err := w.Write(exposition.AppendEnd(nil, format))
		return err
	})
}

// stream writes a body piece by piece: an answer of all groups may be large, and is never in memory whole. What write uses
// outlives the exchange.
func (x *exchange) stream(write func(*bufio.Writer) error) {
	if x.http.IsHead() { // fasthttp would end a body that it does not write
		return
	}
	x.http.SetBodyStreamWriter(func(w *bufio.Writer) {
		_ = write(w) // the client went away
	})
}

// wipe answers PUT /api/v1/admin/wipe: all groups go that the sender may delete. Where credentials are looked at, it takes the
// right to delete at the cluster scope.
func (x *exchange) wipe() {
	if x.server.desk != nil {
		if f := x.may(metric.Delete, metric.Object{}); f != nil {
			x.fail(f)
			return
		}
	}
	n := x.server.groups.Wipe(x.mayGroups(metric.Delete))
	x.reply(fasthttp.StatusAccepted, deleteAnswer{n})
}

// gatewayStatus answers GET /api/v1/status.
func (x *exchange) gatewayStatus() {
	s := x.server
	x.reply(fasthttp.StatusOK, apiAnswer{Status: "success", Data: map[string]any{
		"build_information": s.build,
		"flags": map[string]string{
			"http-group-ttl":             s.cfg.GroupTTL.String(),
			"http-admin-wipe":            strconv.FormatBool(s.cfg.AdminWipe),
			"http-max-body":              strconv.Itoa(s.cfg.MaxBodyBytes),
			"http-max-decompressed-body": strconv.Itoa(s.cfg.maxDecompressed()),
		},
		"start_time": s.began.UTC().Format(time.RFC3339Nano),
	}})
}

// apiAnswer is what a Pushgateway's API answers.
type apiAnswer struct {
	Status string `json:"status"`
	Data   any    `json:"data"`
}
