package valuelist

import (
	"bytes"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cmv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	cmv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	emv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	cmserver "sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// MaxSmall is the most points of a small list.
const MaxSmall = 4096

// List is an answer. The library negotiates, compresses and writes it like its own types, but List
// encodes plain JSON and protobuf itself. For all other encodings, such as YAML and pretty-printed
// JSON, the library encodes the typed list.
type List struct {
	Points  []metric.Point // accepted by quantityOf; valid until the request ends
	version string         // the list's resourceVersion
	kind    string
	items   items
}

// items encodes the items of one kind of list.
type items interface {
	typed(*List) runtime.Object
	// jsonItem and protobufItem return encoders of the items of one list, in a version of the
	// group. Items are encoded in order.
	jsonItem(schema.GroupVersion) func(dst []byte, p *metric.Point) []byte
	protobufItem(schema.GroupVersion) protobufItem
}

type protobufItem interface {
	// measure returns the length of an item.
	measure(p *metric.Point) int
	// append appends the item that was measured last.
	append(dst []byte, p *metric.Point) []byte
}

var (
	_ runtime.Object          = (*List)(nil)
	_ runtime.CacheableObject = (*List)(nil)
)

// GetObjectKind implements runtime.Object.
func (l *List) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object { return l.GetObject() }

// GetObject implements runtime.CacheableObject.
func (l *List) GetObject() runtime.Object { return l.items.typed(l) }

// CacheEncode implements runtime.CacheableObject, with which the library lets objects provide their
// bytes.
func (l *List) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	if as, ok := encodings[id]; ok {
		return as.write(l, as.version, w)
	}
	if len(l.Points) <= MaxSmall {
		return encode(l.GetObject(), w)
	}
	whole, err := l.encodeBuffered(encode)
	if err != nil {
		return err
	}
	_, err = w.Write(whole)
	return err
}

// typedEncoding is held while the library encodes a large list, which takes several times the
// memory of the points.
var typedEncoding sync.Mutex

// encodeBuffered has the library encode the list into memory, so a slow client does not hold
// typedEncoding.
func (l *List) encodeBuffered(encode func(runtime.Object, io.Writer) error) ([]byte, error) {
	typedEncoding.Lock()
	defer typedEncoding.Unlock()
	var whole bytes.Buffer
	err := encode(l.GetObject(), &whole)
	return whole.Bytes(), err
}

// encoding is a version of a group in JSON or protobuf.
type encoding struct {
	version schema.GroupVersion
	write   func(*List, schema.GroupVersion, io.Writer) error
}

// encodings are found by the identifiers of the library's encoders.
var encodings = func() map[runtime.Identifier]encoding {
	all := map[runtime.Identifier]encoding{}
	for _, media := range cmserver.Codecs.SupportedMediaTypes() {
		for _, v := range []schema.GroupVersion{
			cmv1beta1.SchemeGroupVersion, cmv1beta2.SchemeGroupVersion, emv1beta1.SchemeGroupVersion,
			OwnCustomV1beta1, OwnCustomV1beta2, OwnExternal,
		} {
			id := cmserver.Codecs.EncoderForVersion(media.Serializer, v).Identifier()
			switch media.MediaType {
			case runtime.ContentTypeJSON:
				all[id] = encoding{v, (*List).writeJSON}
			case runtime.ContentTypeProtobuf:
				all[id] = encoding{v, (*List).writeProtobuf}
			}
		}
	}
	return all
}()

// windowSeconds is nil for a value without a window. The autoscaler reads nil as 60 s, and 0 as an
// empty window.
func windowSeconds(window time.Duration) *int64 {
	if window == 0 {
		return nil
	}
	return new(wholeSeconds(window))
}

func wholeSeconds(window time.Duration) int64 { return int64((window + time.Second - 1) / time.Second) }

// resourceVersion follows the newest timestamp (custom metrics API proposal, "Resource Versions").
func resourceVersion(newest time.Time) string {
	return strconv.FormatInt(max(newest.UnixNano(), 0), 10)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
