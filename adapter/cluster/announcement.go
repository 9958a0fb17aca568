package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	corev1 "k8s.io/api/core/v1"
)

// Annotations by which a pod announces endpoints. The first one of EndpointsAnnotation,
// CustomEndpointsAnnotation and NamesAnnotation that a pod has counts.
const (
	// CustomEndpointsAnnotation has a list of {api, path, port, names} in JSON (Kubernetes' proposal
	// "Custom Metrics", 2015).
	CustomEndpointsAnnotation = "metrics.alpha.kubernetes.io/custom-endpoints"
	// EndpointsAnnotation has the same list; its endpoints may have an interval.
	EndpointsAnnotation = "sluice.dev/endpoints"
	// NamesAnnotation has the names of the metrics that are taken from the endpoint of
	// prometheus.io/port and prometheus.io/path.
	NamesAnnotation = "sluice.dev/names"

	prometheusScrape = "prometheus.io/scrape" // "false": the pod announces nothing
	prometheusPort   = "prometheus.io/port"
	prometheusPath   = "prometheus.io/path"
)

// Bounds of an announcement.
const (
	maxAnnouncement  = 16 << 10 // bytes
	maxEndpoints     = 16
	maxEndpointNames = 64
	maxEndpointPath  = 512
	minInterval      = time.Second
	maxInterval      = 5 * time.Minute
	defaultInterval  = 10 * time.Second
	defaultPath      = "/metrics"
)

// announcementOf reads the announcement of a pod; nil: it announces nothing.
func announcementOf(from *corev1.Pod) *metric.Announcement {
	annotation, endpoints, err := announcedEndpoints(from.Annotations)
	switch {
	case err != nil:
		return &metric.Announcement{Fault: "annotation " + annotation + ": " + metric.Mask(err.Error())}
	case len(endpoints) == 0:
		return nil
	case from.Spec.HostNetwork:
		return &metric.Announcement{Fault: "annotation " + annotation +
			": the pod is in the host network, whose addresses are the node's; must have an address of its own"}
	}
	return &metric.Announcement{Endpoints: endpoints}
}

func announcedEndpoints(annotations map[string]string) (annotation string, all []metric.Endpoint, err error) {
	if annotations[prometheusScrape] == "false" {
		return "", nil, nil
	}
	for _, annotation := range []string{EndpointsAnnotation, CustomEndpointsAnnotation} {
		if text, has := annotations[annotation]; has {
			all, err = parseEndpoints(text, annotation == EndpointsAnnotation)
			return annotation, all, err
		}
	}
	names, has := annotations[NamesAnnotation]
	if !has || annotations[prometheusPort] == "" {
		return "", nil, nil
	}
	raw := rawEndpoint{Port: jsonText(annotations[prometheusPort]), Path: annotations[prometheusPath], Names: words(names)}
	e, err := raw.endpoint()
	return NamesAnnotation + " with " + prometheusPort, []metric.Endpoint{e}, err
}

// rawEndpoint is an entry of the list, as it is written.
type rawEndpoint struct {
	API      string   `json:"api"`
	Path     string   `json:"path"`
	Port     jsonText `json:"port"`
	Names    names    `json:"names"`
	Interval string   `json:"interval"`
}

// jsonText is a JSON string or number.
type jsonText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *jsonText) UnmarshalJSON(raw []byte) error {
	var number json.Number
	if json.Unmarshal(raw, &number) == nil { // a string of a number, too
		*t = jsonText(number)
		return nil
	}
	return json.Unmarshal(raw, (*string)(t))
}

// names is a JSON list of names, or a string of names.
type names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *names) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*n = words(one)
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(n))
}

// words splits a text at commas and blanks.
func words(s string) names {
	return strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' || c == '\n' })
}

// parseEndpoints reads a list of endpoints. An entry without a port is not configured and is left out.
func parseEndpoints(list string, withInterval bool) (all []metric.Endpoint, err error) {
	if len(list) > maxAnnouncement {
		return nil, fmt.Errorf("has %d bytes; must have at most %d", len(list), maxAnnouncement)
	}
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var entries []rawEndpoint
	decoder := json.NewDecoder(strings.NewReader(list))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&entries); err != nil {
		return nil, worded(err, list, decoder.InputOffset())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("has more after the list, at byte %d; must be one list", decoder.InputOffset())
	}
	if len(entries) > maxEndpoints {
		return nil, fmt.Errorf("has %d endpoints; must have at most %d", len(entries), maxEndpoints)
	}
	takenBy := map[string]int{}
	for i := range entries {
		entry := &entries[i]
		if entry.Port == "" {
			continue
		}
		if entry.Interval != "" && !withInterval {
			return nil, fmt.Errorf("endpoint %d has an interval; must be in the annotation %s", i+1, EndpointsAnnotation)
		}
		e, err := entry.endpoint()
		if err != nil {
			return nil, fmt.Errorf("endpoint %d: %w", i+1, err)
		}
		for _, name := range e.Names {
			if first := takenBy[name]; first != 0 {
				return nil, fmt.Errorf("endpoints %d and %d both name %q; must be taken from one", first, i+1, name)
			}
			takenBy[name] = i + 1
		}
		all = append(all, e)
	}
	return all, nil
}

// worded says where a list is not what it must be.
func worded(err error, list string, offset int64) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		return fmt.Errorf("is no list of {api, path, port, names}, at byte %d: a %s stands where %s belongs", kind.Offset, kind.Value,
			map[bool]string{true: "the list", false: "another type"}[kind.Field == ""])
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("is no JSON: it ends at byte %d, within the list", len(list))
	}
	offset = min(max(offset, 0), int64(len(list)))
	before := list[max(0, offset-20):offset]
	text := fmt.Sprintf("is no JSON list of endpoints, at byte %d, after %q: %s", offset, strings.ToValidUTF8(before, "?"),
		strings.TrimPrefix(err.Error(), "json: "))
	return errors.New(metric.MaskAbout(text, []byte(list), int(offset)))
}

// quotable is the beginning of a value for a fault. It may have a token, as the query of a path.
func quotable(value string) string { return metric.MaskBeginning([]byte(value), 60) }

// endpoint checks an entry that has a port.
func (r *rawEndpoint) endpoint() (e metric.Endpoint, err error) {
	if r.API != "" && !strings.EqualFold(r.API, "prometheus") {
		return e, fmt.Errorf("api is %q; must be prometheus, or empty", quotable(r.API))
	}
	port, err := strconv.ParseUint(string(r.Port), 10, 16)
	if err != nil || port == 0 {
		return e, fmt.Errorf("port is %q; must be a number from 1 to 65535", quotable(string(r.Port)))
	}
	e = metric.Endpoint{Port: uint16(port), Path: r.Path, Interval: defaultInterval}
	if e.Path == "" {
		e.Path = defaultPath
	}
	if err := checkPath(e.Path); err != nil {
		return e, err
	}
	if r.Interval != "" {
		e.Interval, err = time.ParseDuration(r.Interval)
		if err != nil || e.Interval < minInterval || e.Interval > maxInterval {
			return e, fmt.Errorf("interval is %q; must be from 1s to 5m", quotable(r.Interval))
		}
	}
	e.Names, err = checkedNames(r.Names)
	return e, err
}

func checkPath(path string) error {
	const safe = "; must begin with / and have no .., no escape of a dot, no blank and no #"
	escaped := strings.ToLower(path)
	switch {
	case len(path) > maxEndpointPath:
		return fmt.Errorf("path has %d bytes; must have at most %d", len(path), maxEndpointPath)
	case path[0] != '/', strings.Contains(path, ".."), strings.Contains(escaped, "%2e"), strings.ContainsAny(path, "\\# "),
		strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		return fmt.Errorf("path is %q%s", quotable(path), safe)
	}
	return nil
}

func checkedNames(said names) (all []string, err error) {
	if len(said) > maxEndpointNames {
		return nil, fmt.Errorf("has %d names; must have at most %d", len(said), maxEndpointNames)
	}
	seen := map[string]bool{}
	for _, name := range said {
		switch {
		case strings.ContainsAny(name, "*"):
			return nil, fmt.Errorf("name %q has a wildcard; must be the whole name of a metric", quotable(name))
		case metric.CheckName(name) != metric.Applied || bytes.ContainsAny([]byte(name), "\"\\{}"):
			return nil, fmt.Errorf("name %q cannot be the name of a metric", quotable(name))
		}
		if !seen[name] {
			seen[name] = true
			all = append(all, strings.Clone(name)) // a part of the annotation, which may have 256 KiB
		}
	}
	if len(all) == 0 {
		return nil, errors.New("names are missing; must name the metrics that are taken")
	}
	return all, nil
}

// Bounds of what pods announce, in bytes: short names take several times their length.
const (
	// maxAnnouncementRoom is what the announcements of all pods may take, beyond freeAnnouncement of each.
	maxAnnouncementRoom = 64 << 20
	freeAnnouncement    = 2 << 10
	endpointBytes       = 64
	endpointNameBytes   = 32
)

// beyondFree is the memory of an announcement beyond the free part.
func beyondFree(a *metric.Announcement) int64 {
	n := len(a.Fault) - freeAnnouncement
	for i := range a.Endpoints {
		e := &a.Endpoints[i]
		n += endpointBytes + len(e.Path)
		for _, name := range e.Names {
			n += endpointNameBytes + len(name)
		}
	}
	return int64(max(n, 0))
}

// keptAnnouncement takes the room of what a pod announces, and returns it; without room, a fault.
func (r *objectRoom) keptAnnouncement(p *pod, a *metric.Announcement) *metric.Announcement {
	key := objectName{p.Namespace, p.Name}
	switch {
	case a == nil || p.finished:
		r.free(key)
		return nil
	case !r.take(key, beyondFree(a)):
		return &metric.Announcement{Fault: "the pods of the namespace announce more than Sluice has memory for; must name fewer metrics"}
	}
	return a
}

// AnnouncedPods returns the live pods that announce something, and the version of that set; nil: it has not
// changed since a version.
func (v *View) AnnouncedPods(since uint64) (all []metric.AnnouncedPod, version uint64) {
	p := v.pods
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.announcements == since {
		return nil, since
	}
	all = make([]metric.AnnouncedPod, 0, len(p.announcing))
	for _, one := range p.announcing {
		announced := metric.AnnouncedPod{Pod: one.Pod, Announcement: one.announcement}
		if len(one.addresses) > 0 {
			announced.Address = one.addresses[0]
		}
		all = append(all, announced)
	}
	return all, p.announcements
}

// Announces reports whether a live pod announces an endpoint that has a metric.
func (v *View) Announces(o metric.Object, name string) bool {
	p := v.pods.byName(o.Namespace, o.Name)
	return p != nil && p.announcement != nil && slices.ContainsFunc(p.announcement.Endpoints,
		func(e metric.Endpoint) bool { return slices.Contains(e.Names, name) })
}

// ReasonBadEndpoints is the reason of the Event on a pod whose announcement has a fault.
const ReasonBadEndpoints = "BadMetricsEndpoints"

// AnnouncementEvent writes an Event on a pod whose announcement has a fault. With several replicas, all of
// which see it, one of them writes. It never blocks.
func (v *View) AnnouncementEvent(pod *metric.Pod, fault string) {
	v.events.add(pod.Object(), news{reason: ReasonBadEndpoints, about: fault, common: true,
		message: fault + ". No metric is taken from this pod."})
}
