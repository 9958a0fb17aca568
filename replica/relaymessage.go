package replica

import (
	"encoding/binary"
	"time"

	"github.com/sluice-metrics/sluice/aggregate/blob"
)

// The bodies of relay messages. All but the announcement begin with the epoch that they are
// about.

// version is how new the content of a block is. The order of versions is that of contents.
type version struct {
	incarnation uint64 // 0: the block has no content
	seq         uint64 // of the block's newest delta
	letter      uint64 // of the whole block after that delta, which may be ahead of it; 0: none came
}

func (v version) newer(than version) bool {
	if v.incarnation != than.incarnation {
		return v.incarnation > than.incarnation
	}
	if v.seq != than.seq {
		return v.seq > than.seq
	}
	return v.letter > than.letter
}

// digest is the part of a block in the digest of a relayed epoch.
func (v version) digest(block int) uint64 {
	if v == (version{}) {
		return 0
	}
	return digestOf(block, digestOf(int(v.seq), v.incarnation)+digestOf(1, v.letter))
}

func (k originKey) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(blob.AppendString(dst, k.name), k.epoch)
}

func readKey(d *blob.Decoder) originKey {
	name := d.Bytes(d.Uvarint())
	k := originKey{epoch: d.Uint64()}
	if len(name) > longestName || !validName(string(name)) {
		d.Fail()
		return originKey{}
	}
	k.name = string(name)
	return k
}

// silentOrigin describes the state that a replica has of a silent origin.
type silentOrigin struct {
	key         originKey
	incarnation uint64
	beats       uint64        // the newest heartbeat
	flush       uint64        // that is applied
	left        bool          // the process has ended, and said so
	still       time.Duration // since the origin's clock advanced
	offset      time.Duration // local clock minus the origin's
	digest      uint64        // of the blocks' versions
	clock       []byte
}

func (m *silentOrigin) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(m.key.append(dst), m.incarnation)
	dst = binary.AppendUvarint(dst, m.beats)
	dst = binary.AppendUvarint(dst, m.flush)
	dst = append(dst, bit(m.left, flagLeaving))
	dst = binary.AppendUvarint(dst, uint64(m.still))
	dst = binary.AppendVarint(dst, int64(m.offset))
	dst = binary.LittleEndian.AppendUint64(dst, m.digest)
	return append(binary.AppendUvarint(dst, uint64(len(m.clock))), m.clock...)
}

func readSilent(d *blob.Decoder) (m silentOrigin) {
	m.key, m.incarnation = readKey(d), d.Uint64()
	m.beats, m.flush, m.left = d.Uvarint(), d.Uvarint(), d.Byte()&flagLeaving != 0
	still := d.Uvarint()
	m.offset, m.digest = time.Duration(d.Varint()), d.Uint64()
	m.clock = d.Bytes(d.Uvarint())
	if len(m.clock) > longestClock || m.incarnation == 0 || still > uint64(endsAfter) {
		d.Fail()
	}
	m.still = time.Duration(still)
	return m
}

// relayBody announces all silent origins that the sender has a shadow of.
type relayBody struct {
	asked bool // it answers a question
	// live are the origins that the sender hears, in an answer to a replica that starts.
	live []string
	all  []silentOrigin
}

func (m *relayBody) append(dst []byte) []byte {
	dst = append(dst, bit(m.asked, flagSilent))
	dst = binary.AppendUvarint(dst, uint64(len(m.live)))
	for _, name := range m.live {
		dst = blob.AppendString(dst, name)
	}
	for i := range m.all {
		dst = m.all[i].append(dst)
	}
	return dst
}

func readRelay(body []byte) (m relayBody, err error) {
	d := blob.Decoder{Rest: body}
	m.asked = d.Byte()&flagSilent != 0
	for n := d.Uvarint(); n > 0 && d.Err == nil && len(m.live) <= maxOrigins; n-- {
		m.live = append(m.live, d.String())
	}
	for d.More() && len(m.all) <= maxOrigins {
		m.all = append(m.all, readSilent(&d))
	}
	if d.Err != nil || len(m.all) > maxOrigins || len(m.live) > maxOrigins {
		return relayBody{}, errDamaged
	}
	return m, nil
}

// wantRelayBody asks a replica for the versions that it has of an epoch's blocks, or for blocks.
type wantRelayBody struct {
	key      originKey
	versions bool
	blocks   []int
}

func (m *wantRelayBody) append(dst []byte) []byte {
	dst = append(m.key.append(dst), bit(m.versions, flagNumbers))
	dst = binary.AppendUvarint(dst, uint64(len(m.blocks)))
	for _, b := range m.blocks {
		dst = binary.AppendUvarint(dst, uint64(b))
	}
	return dst
}

func readWantRelay(body []byte) (m wantRelayBody, err error) {
	d := blob.Decoder{Rest: body}
	m.key, m.versions = readKey(&d), d.Byte()&flagNumbers != 0
	m.blocks = readAsked(&d)
	if d.Err != nil || len(d.Rest) > 0 {
		return wantRelayBody{}, errDamaged
	}
	return m, nil
}

// versionsBody lists the version of each block, beside the state that they belong to.
type versionsBody struct {
	silentOrigin
	versions []version
}

func (m *versionsBody) append(dst []byte) []byte {
	dst = m.silentOrigin.append(dst)
	dst = binary.AppendUvarint(dst, uint64(len(m.versions)))
	for _, v := range m.versions {
		dst = m.appendVersion(dst, v)
	}
	return dst
}

// appendVersion appends a version. Mostly, the incarnation is that of the state.
func (m *versionsBody) appendVersion(dst []byte, v version) []byte {
	dst = binary.AppendUvarint(dst, m.incarnation-v.incarnation)
	return binary.AppendUvarint(binary.AppendUvarint(dst, v.seq), v.letter)
}

func readVersions(body []byte) (m versionsBody, err error) {
	d := blob.Decoder{Rest: body}
	m.silentOrigin = readSilent(&d)
	n := d.Uvarint()
	if d.Err != nil || n > uint64(len(d.Rest)) || n > maxBlocks { // a version has a byte at least
		return versionsBody{}, errDamaged
	}
	m.versions = make([]version, n)
	for i := range m.versions {
		older := d.Uvarint()
		if older > m.incarnation {
			d.Fail()
		}
		v := version{m.incarnation - older, d.Uvarint(), d.Uvarint()}
		if m.versions[i] = v; v.incarnation == 0 && v != (version{}) {
			d.Fail()
		}
	}
	if d.Err != nil || len(d.Rest) > 0 {
		return versionsBody{}, errDamaged
	}
	return m, nil
}

// relayedBody is a block of a silent origin.
type relayedBody struct {
	key                 originKey
	block               int
	version             version
	clock, names, state []byte // the clock is not earlier than the state
}

func (m *relayedBody) append(dst []byte) []byte {
	dst = binary.AppendUvarint(m.key.append(dst), uint64(m.block))
	dst = binary.LittleEndian.AppendUint64(dst, m.version.incarnation)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, m.version.seq), m.version.letter)
	dst = append(binary.AppendUvarint(dst, uint64(len(m.clock))), m.clock...)
	dst = append(binary.AppendUvarint(dst, uint64(len(m.names))), m.names...)
	return append(dst, m.state...)
}

func readRelayed(body []byte) (m relayedBody, err error) {
	d := blob.Decoder{Rest: body}
	m.key, m.block = readKey(&d), readBlock(&d)
	m.version = version{d.Uint64(), d.Uvarint(), d.Uvarint()}
	m.clock = d.Bytes(d.Uvarint())
	m.names = d.Bytes(d.Uvarint())
	if d.Err != nil || len(m.clock) > longestClock || m.version.incarnation == 0 {
		return relayedBody{}, errDamaged
	}
	m.state = d.Rest
	return m, nil
}
