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

// MaxSmall is the most points that a list has that is not large.
const MaxSmall = 4096

// list is an answer on its way out. The library negotiates, compresses and writes it as it does its own types, but in plain JSON and
// protobuf the bytes are made of the points themselves. Everything else, such as what is printed for people or in YAML, the
// library makes of the typed list.
type List struct {
	Points  []metric.Point // with values that quantityOf takes; until the request's turn ends
	version string         // the list's resourceVersion
	kind    string
	items   items
}

// content is what items of one kind have in common.
type items interface {
	typed(*List) runtime.Object
	// jsonItem and protobufItem write the items of one list, one after the other, as a version of the group has them.
	jsonItem(schema.GroupVersion) func(dst []byte, p *metric.Point) []byte
	protobufItem(schema.GroupVersion) protobufItem
}

type protobufItem interface {
	// measure returns how long an item is.
	measure(p *metric.Point) int
	// append appends the item, which is the last that was measured.
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

// CacheEncode implements runtime.CacheableObject, by which the library lets objects have their bytes from elsewhere.
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

// typing is held while the library makes something of a large list, which takes several times the memory of the points.
var typedEncoding sync.Mutex

// encodedAlone is what the library makes of the list. It is not written while it is made: whoever reads slowly would keep others waiting.
func (l *List) encodeBuffered(encode func(runtime.Object, io.Writer) error) ([]byte, error) {
	typedEncoding.Lock()
	defer typedEncoding.Unlock()
	var whole bytes.Buffer
	err := encode(l.GetObject(), &whole)
	return whole.Bytes(), err
}

// encoding is a version of a group in one of the encodings that are written here.
type encoding struct {
	version schema.GroupVersion
	write   func(*List, schema.GroupVersion, io.Writer) error
}

// written has the encodings by the names of the library's encoders.
var encodings = func() map[runtime.Identifier]encoding {
	all := map[runtime.Identifier]encoding{}
	for _, media := range cmserver.Codecs.SupportedMediaTypes() {
		for _, v := range []schema.GroupVersion{
			cmv1beta1.SchemeGroupVersion, cmv1beta2.SchemeGroupVersion, emv1beta1.SchemeGroupVersion,
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

// windowSeconds is set exactly for values that have a window: absent reads as 60 s to the autoscaler, and 0 as
// a window of nothing.
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
