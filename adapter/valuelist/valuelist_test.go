package valuelist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cmv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	cmv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	emv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// noon is the time of all values in these tests.
var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

var (
	podResource = schema.GroupResource{Resource: "pods"}
	podKind     = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

func pod(name string) metric.Object {
	return metric.Object{Resource: "pods", Namespace: "shop", Name: name}
}

func labelled(pairs ...string) metric.Labels {
	var list []metric.Label
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, metric.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	return metric.NewLabels(list)
}

// asTheLibrary compares the encoded list with the library's encoding of the typed list.
func asTheLibrary(t *testing.T, l *List) {
	t.Helper()
	versions := []schema.GroupVersion{cmv1beta1.SchemeGroupVersion, cmv1beta2.SchemeGroupVersion, OwnCustomV1beta1, OwnCustomV1beta2}
	if _, external := l.items.(external); external {
		versions = []schema.GroupVersion{emv1beta1.SchemeGroupVersion, OwnExternal}
	}
	for _, media := range cmserver.Codecs.SupportedMediaTypes() {
		if media.MediaType != runtime.ContentTypeJSON && media.MediaType != runtime.ContentTypeProtobuf {
			continue
		}
		for _, version := range versions {
			var got, want bytes.Buffer
			encoder := cmserver.Codecs.EncoderForVersion(media.Serializer, version)
			if err := encoder.Encode(l.GetObject(), &want); err != nil {
				t.Fatalf("the library: %v", err)
			}
			once := *l
			once.Points = slices.Clone(l.Points)
			err := once.CacheEncode(encoder.Identifier(), func(runtime.Object, io.Writer) error { return errors.New("left to the library") }, &got)
			if err != nil {
				t.Fatalf("%s in %s: %v", version, media.MediaType, err)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%s in %s:\n%q\nthe library:\n%q", version, media.MediaType, got.Bytes(), want.Bytes())
			}
		}
	}
}

// oddTexts are strings that JSON, or HTML in JSON, has to escape, and others.
var oddTexts = []string{"web-1", "", `"`, `\`, "<b>&", "\x00\x1f\x7f", "ä€😀", "\u2028\u2029", "\xff\xc3", "a\xed\xa0\x80b", strings.Repeat("x", 300)}

// numbers have every form of a Quantity.
func numbers() (all []metric.Number) {
	for _, whole := range []int64{0, 1, 7, 10, 999, 1000, 1001, 1200, 1_000_000, 1_500_000, 1 << 20, 1 << 53, math.MaxInt64/metric.Nanos - 1, math.MaxInt64 / metric.Nanos, maxWhole} {
		all = append(all, metric.Int(whole), metric.Int(-whole))
	}
	for _, f := range []float64{0.5, 0.1, 1.0 / 3, 1e-3, 1e-9, 4e-10, 1e-12, 123.456, 1e6 + 0.25, 1e10 + 0.5, 8999999999.9999, 1e15 + 0.5, math.Copysign(0, -1)} {
		all = append(all, metric.Float(f), metric.Float(-f))
	}
	return all
}

func TestListsAreWrittenAsTheLibraryDoes(t *testing.T) {
	selector, err := metav1.ParseToLabelSelector(`path=api,code in (200,201),!gone,there`)
	must(t, err)
	times := []time.Time{noon, noon, noon.Add(time.Millisecond), {}, {}, time.Unix(0, 0), time.Unix(-1, 0), noon.In(time.FixedZone("", 3600))}
	windows := []time.Duration{0, 10 * time.Second, time.Minute, time.Hour, 1500 * time.Millisecond, 200 * 24 * time.Hour}
	for i, n := range numbers() {
		text := func(k int) string { return oddTexts[(i+k)%len(oddTexts)] }
		var points []metric.Point
		for k := range 1 + i%4 {
			points = append(points, metric.Point{
				Object: metric.Object{Resource: "pods", Namespace: text(k), Name: text(k + 1), UID: text(k + 2)},
				Labels: labelled(text(k+3), text(k+4), text(k+5), text(k+6), "x"+text(k), ""),
				Value:  n, Time: times[(i+k)%len(times)], Window: windows[(i+k)%len(windows)],
			})
		}
		c := Custom{Metric: text(5), Object: "*", Resource: podResource, Kind: podKind}
		if i%2 == 0 {
			c.Selector = selector
		}
		if i%5 == 0 {
			c.Resource, c.Kind = schema.GroupResource{}, schema.GroupVersionKind{} // an unknown resource: its fields are empty
		}
		// Sums of the largest numbers are rejected; a single one is not.
		custom, err := NewCustom(c, points[:1])
		must(t, err)
		custom.Points = points
		asTheLibrary(t, custom)
		external, err := NewExternal("shop", text(6), points[:1])
		must(t, err)
		external.Points = points
		asTheLibrary(t, external)
	}
}

func FuzzLists(f *testing.F) {
	for i, n := range numbers() {
		whole, _ := n.Int64()
		text := func(k int) string { return oddTexts[(i+k)%len(oddTexts)] }
		f.Add(text(0), text(1), text(2), text(3), text(4), text(5), whole, n.Float64(), int64(1773489600), int64(i)*1e9)
	}
	f.Fuzz(func(t *testing.T, namespace, name, uid, asked, key, value string, whole int64, float float64, second, window int64) {
		point := metric.Point{
			Object: metric.Object{Namespace: namespace, Name: name, UID: uid}, Labels: labelled(key, value, value, key),
			Value: metric.Int(whole), Time: time.Unix(second, 0), Window: max(time.Duration(window), 0),
		}
		other := point
		other.Value, other.Time = metric.Float(float), time.Unix(second+1, 5)
		points := []metric.Point{point, other, point}
		if l, err := NewCustom(Custom{Metric: asked, Object: "*", Selector: nil}, points); err == nil {
			asTheLibrary(t, l)
		}
		if l, err := NewExternal(namespace, asked, []metric.Point{point, other}); err == nil {
			asTheLibrary(t, l)
		}
	})
}

// A large list is written in chunks, the first large enough to be compressed, with the same bytes
// as the library's.
func TestLargeListsGoOutInPieces(t *testing.T) {
	points := make([]metric.Point, 5_000)
	for i := range points {
		points[i] = metric.Point{Object: pod(fmt.Sprintf("web-%d", i)), Value: metric.Int(int64(i)), Time: noon}
	}
	l, err := NewCustom(Custom{Metric: "x", Object: "*"}, points)
	must(t, err)
	asTheLibrary(t, l)
	var pieces pieceSizes
	must(t, l.writeJSON(cmv1beta2.SchemeGroupVersion, &pieces))
	if len(pieces) < 3 || pieces[0] <= 128<<10 || pieces[0] > 2*chunkBytes {
		t.Errorf("pieces of %v bytes", pieces)
	}
	gone := errors.New("gone")
	if err := l.writeProtobuf(cmv1beta2.SchemeGroupVersion, failing{gone}); !errors.Is(err, gone) {
		t.Errorf("a reader that has gone: %v", err)
	}
}

type pieceSizes []int

func (p *pieceSizes) Write(b []byte) (int, error) { *p = append(*p, len(b)); return len(b), nil }

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

// The number of allocations does not depend on the number of items.
func TestItemsAllocateNothing(t *testing.T) {
	allocs := func(items int) float64 {
		points := make([]metric.Point, items)
		for i := range points {
			points[i] = metric.Point{Object: pod("web"), Value: metric.Float(float64(1000*i) + 0.5), Time: noon, Window: time.Minute}
		}
		l, err := NewCustom(Custom{Metric: "x", Object: "*"}, points)
		must(t, err)
		return testing.AllocsPerRun(5, func() {
			for _, as := range encodings {
				must(t, as.write(l, as.version, io.Discard))
			}
		})
	}
	if few, many := allocs(10), allocs(1_000); many > few+20 {
		t.Errorf("%v allocations for 1000 items, %v for 10", many, few)
	}
}

// Each item has its own window, also after a skipped item.
func TestWindowOfEachItem(t *testing.T) {
	minute, none := int64(60), int64(-1)
	points := []metric.Point{
		{Object: pod("nan"), Value: metric.Float(math.NaN()), Window: time.Minute},
		{Object: pod("a"), Value: metric.Int(1), Window: time.Minute},
		{Object: pod("b"), Value: metric.Int(1), Window: time.Minute},
		{Object: pod("c"), Value: metric.Int(1)},
		{Object: pod("d"), Value: metric.Int(1), Window: time.Minute},
	}
	l, err := NewCustom(Custom{Object: custom_metrics.AllObjects}, points)
	if err != nil || len(l.Points) != 4 {
		t.Fatal(l, err)
	}
	list := l.GetObject().(*custom_metrics.MetricValueList)
	for i, want := range []int64{minute, minute, none, minute} {
		got := none
		if w := list.Items[i].WindowSeconds; w != nil {
			got = *w
		}
		if got != want {
			t.Errorf("item %d: %d seconds, want %d", i, got, want)
		}
	}
}
