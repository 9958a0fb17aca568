package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc"
)

// versioned is a server of another version, which welcomes any agent.
type versioned struct {
	agentwire.UnimplementedAgentsServer
	protocol uint32
}

func (v *versioned) Report(g grpc.BidiStreamingServer[agentwire.FromAgent, agentwire.FromServer]) error {
	if _, err := g.Recv(); err != nil {
		return err
	}
	welcome := &agentwire.Welcome{Epoch: 1, Protocol: v.protocol}
	if err := g.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	<-g.Context().Done()
	return nil
}

// lines are those of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// An agent reports to a server whose protocol is a version older or newer than its own, and refuses one that is
// further away, in words that say which to update.
func TestServersOfOtherVersions(t *testing.T) {
	for protocol := range uint32(agentwire.Protocol + 3) { // 0: a server from before versions were said, which is the first
		t.Run(fmt.Sprint(protocol), func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			agentwire.RegisterAgentsServer(server, &versioned{protocol: protocol})
			go func() { _ = server.Serve(listener) }()
			defer server.Stop()
			cfg := DefaultConfig()
			cfg.Server, cfg.Node, cfg.Insecure, cfg.DeliveryTimeout = listener.Addr().String(), "a", true, 0
			says := make(lines, 100)
			link, err := NewLink(cfg, "9.9", NewCollector(cfg), slog.New(slog.NewTextHandler(says, nil)))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- link.Run(ctx) }()
			refusal := fmt.Sprintf("the server speaks version %d of the protocol, this agent (sluice 9.9) %d: update the older one", protocol, agentwire.Protocol)
			refuses := !agentwire.Speaks(max(protocol, 1))
			connected := false
			for refused := false; !connected && !refused; {
				line := <-says
				connected, refused = strings.Contains(line, "msg=connected"), strings.Contains(line, refusal)
			}
			if connected == refuses {
				t.Errorf("the agent is connected: %t; %q", connected, *link.why.Load())
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
