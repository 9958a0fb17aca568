package agents

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/usage"
	"github.com/sluice-metrics/sluice/replica/agentwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// maxContainers bounds the containers of a node.
const maxContainers = 20_000

// Renewal is a pod of which an agent knows usage from before it began: of another pod of its name.
type Renewal struct {
	Namespace, Pod string
	Began          time.Time
}

// usage takes what an agent says that its node uses.
func (t *stream) usage(u *agentwire.Usage) error {
	if err := checkContainers(u); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if t.server.parts.Usage == nil {
		return nil
	}
	report := usage.Report{Number: u.Number, At: time.Now(), Records: u.Records(), Seconds: u.Seconds.Newest(), Own: true}
	for _, r := range t.server.parts.Usage(t.node, report) {
		renewed := &agentwire.Renewed{Namespace: r.Namespace, Pod: r.Pod, CreatedSeconds: r.Began.Unix()}
		if err := t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Renewed{Renewed: renewed}}); err != nil {
			return err
		}
	}
	return nil
}

// sayNames answers with the names that are known of containers on the agent's node.
func (t *stream) sayNames(u *agentwire.Unnamed) error {
	if len(u.Containers) > maxContainers {
		return status.Errorf(codes.InvalidArgument, "%d containers have no name; must be at most %d", len(u.Containers), maxContainers)
	}
	names := &agentwire.Names{}
	for _, id := range u.Containers {
		if t.server.parts.ContainerNamed == nil {
			break
		}
		if c, node, ok := t.server.parts.ContainerNamed(id); ok && node == t.node {
			names.Containers = append(names.Containers, &agentwire.ContainerName{Id: id, Namespace: c.Namespace, Pod: c.Pod, Container: c.Name})
		}
	}
	if len(names.Containers) == 0 {
		return nil
	}
	return t.grpc.Send(&agentwire.FromServer{Message: &agentwire.FromServer_Names{Names: names}})
}

func checkContainers(u *agentwire.Usage) error {
	if len(u.Containers) > maxContainers {
		return fmt.Errorf("a node has %d containers; must be at most %d", len(u.Containers), maxContainers)
	}
	return nil
}

// EncodeUsage makes the message that tells other replicas an agent's report.
func EncodeUsage(node string, r *usage.Report, now time.Time) []byte {
	u := agentwire.NewUsage(r.Number, r.Records)
	u.Seconds = agentwire.NewSeconds(r.Number, r.Seconds)
	return relayed(&agentwire.RelayedUsage{Node: node, AgeNanos: int64(max(now.Sub(r.At), 0)), Usage: u})
}

// EncodeSeconds makes the message that tells other replicas the newest seconds of an agent's report of a number.
func EncodeSeconds(node string, number uint64, s *usage.Seconds) []byte {
	return relayed(&agentwire.RelayedUsage{Node: node, Seconds: agentwire.NewSeconds(number, s)})
}

func relayed(m *agentwire.RelayedUsage) []byte {
	// Text of it came in such a message, so it is UTF-8, which is the only thing that can be wrong.
	message, _ := proto.Marshal(m)
	return message
}

// DecodeUsage reads what EncodeUsage or EncodeSeconds made at another replica. A report without records is one of
// seconds.
func DecodeUsage(message []byte, now time.Time) (node string, r usage.Report, err error) {
	var m agentwire.RelayedUsage
	if err := proto.Unmarshal(message, &m); err != nil {
		return "", r, err
	}
	if m.Node != "" && m.Usage == nil && m.Seconds.Newest() != nil {
		return m.Node, usage.Report{Number: m.Seconds.Number, Seconds: m.Seconds.Newest()}, nil
	}
	if m.Node == "" || m.Usage == nil || m.AgeNanos < 0 {
		return "", r, errors.New("usage is of no node, of no containers or of the future")
	}
	if err := checkContainers(m.Usage); err != nil {
		return "", r, err
	}
	return m.Node, usage.Report{Number: m.Usage.Number, At: now.Add(-time.Duration(m.AgeNanos)), Records: m.Usage.Records(),
		Seconds: m.Usage.Seconds.Newest()}, nil
}
