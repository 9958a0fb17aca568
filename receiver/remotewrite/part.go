package remotewrite

import (
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// part is one sample of a classic histogram or summary, which consists of the parts of one time.
type part struct {
	base    uint64 // hash of the common name and labels
	at      int64  // Unix milliseconds
	role    role
	bound   float64 // the upper bound of a bucket, or the quantile
	value   float64
	started int64
	of      Type // HistogramType or SummaryType; NoType: unknown
	message []byte
	number  int32
	stale   bool
}

// role is the role of a part, in the order of assembly.
type role uint8

const (
	bucketRole role = iota
	quantileRole
	countRole
	sumRole
)

const (
	boundLabel    = "le"
	quantileLabel = "quantile"
)

// partOf returns the role of a series; false: it is no part. Metadata decide; without them, the
// labels that only parts have.
func partOf(s *Series) (base string, r role, ok bool) {
	classic := s.Type == HistogramType || s.Type == SummaryType
	if !classic && s.Type != NoType {
		return "", 0, false
	}
	if name, is := strings.CutSuffix(s.Name, "_bucket"); is && s.Type != SummaryType && has(s.Labels, boundLabel) {
		return name, bucketRole, name != ""
	}
	if s.Type != HistogramType && has(s.Labels, quantileLabel) {
		return s.Name, quantileRole, true
	}
	if name, is := strings.CutSuffix(s.Name, "_count"); is {
		return name, countRole, name != ""
	}
	name, is := strings.CutSuffix(s.Name, "_sum")
	return name, sumRole, is && name != ""
}

func has(labels []metric.Label, key string) bool {
	return slices.ContainsFunc(labels, func(l metric.Label) bool { return l.Key == key })
}

func (f *Converter) isPart() bool {
	_, _, ok := partOf(&f.reader.Series)
	return ok
}

// addParts keeps the samples of the series until the whole request has been read.
func (f *Converter) addParts() detail {
	s := &f.reader.Series
	if len(f.parts)+len(s.Samples) > f.reader.options.MaxParts {
		return manyParts
	}
	base, r, _ := partOf(s)
	p := part{role: r, of: s.Type, message: s.message, number: int32(s.number)}
	key := ""
	switch r {
	case bucketRole:
		key, p.of = boundLabel, HistogramType
	case quantileRole:
		key, p.of = quantileLabel, SummaryType
	}
	if key != "" {
		var d detail
		if p.bound, d = f.bound(key); d != noDetail {
			return d
		}
	}
	p.base = f.hash(base, s.Labels, key)
	for _, v := range s.Samples {
		p.at, p.value, p.started, p.stale = v.Timestamp, v.Value, v.Started, isStale(v.Value)
		f.parts = append(f.parts, p)
	}
	s.Samples = s.Samples[:0]
	return noDetail
}

func (f *Converter) bound(key string) (float64, detail) {
	s := &f.reader.Series
	i := slices.IndexFunc(s.Labels, func(l metric.Label) bool { return l.Key == key })
	v, err := strconv.ParseFloat(s.Labels[i].Value, 64)
	switch {
	case key == boundLabel && (err != nil || math.IsNaN(v)):
		f.reader.about = s.Labels[i].Value
		return 0, badBound
	case key == quantileLabel && (err != nil || !(v >= 0 && v <= 1)):
		f.reader.about = s.Labels[i].Value
		return 0, badQuantile
	}
	return v, noDetail
}

// hash identifies a histogram or summary. The seed is secret, so no client can produce equal
// hashes.
func (f *Converter) hash(base string, labels []metric.Label, but string) uint64 {
	var h maphash.Hash
	h.SetSeed(f.seed)
	h.WriteString(base)
	for _, l := range labels {
		if l.Key == but {
			continue
		}
		h.WriteByte(0xff) // never in UTF-8
		h.WriteString(l.Key)
		h.WriteByte(0xff)
		h.WriteString(l.Value)
	}
	return h.Sum64()
}
