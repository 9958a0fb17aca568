package inspect

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
)

// Key is the position of an item in its list: first the namespace, then what distinguishes items of
// a namespace, most often the name first. The zero Key is before all items.
type Key [4]string

// Compare compares two keys.
func (k *Key) Compare(other *Key) int {
	return cmp.Or(strings.Compare(k[0], other[0]), strings.Compare(k[1], other[1]),
		strings.Compare(k[2], other[2]), strings.Compare(k[3], other[3]))
}

// Keys of the documents that Paged pages.
func (s *Sender) Key() Key     { return Key{s.Namespace, s.Name, s.Sort} }
func (a *Autoscaler) Key() Key { return Key{a.Namespace, a.Name} }
func (r *Rejection) Key() Key {
	return Key{r.Namespace, r.Sender, r.Receiver, r.Reason + " " + r.Metric}
}

// ErrToken is the error of a token that ParseToken cannot read.
var ErrToken = errors.New("is not a token of this list")

// maxToken is the longest token, in bytes: a key holds labels of a group at most.
const maxToken = 128 << 10

// Token writes a key for the parameter "continue" of the next request; zero: empty. It is no
// secret, and proves nothing: a client that makes one up only chooses where its page begins. Names
// need not be UTF-8, so it is not JSON.
func (k Key) Token(list string) string {
	if k == (Key{}) {
		return ""
	}
	raw := appendPiece(nil, list)
	for _, piece := range k {
		raw = appendPiece(raw, piece)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func appendPiece(raw []byte, piece string) []byte {
	return append(binary.AppendUvarint(raw, uint64(len(piece))), piece...)
}

func cutPiece(raw []byte) (piece string, rest []byte, ok bool) {
	n, used := binary.Uvarint(raw)
	if used <= 0 || n > uint64(len(raw)-used) {
		return "", nil, false
	}
	return string(raw[used : used+int(n)]), raw[used+int(n):], true
}

// ParseToken reads a token of a list. The empty token is the zero Key.
func ParseToken(list, text string) (k Key, err error) {
	if text == "" {
		return Key{}, nil
	}
	if len(text) > maxToken {
		return Key{}, ErrToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Key{}, ErrToken
	}
	of, raw, ok := cutPiece(raw)
	for i := range k {
		if ok {
			k[i], raw, ok = cutPiece(raw)
		}
	}
	if !ok || len(raw) > 0 || of != list || k == (Key{}) {
		return Key{}, ErrToken
	}
	return k, nil
}
