package receiver

// unixSplit parts a stream of a Unix socket. Clients send lines (python3-statsd, etsy's test suite) or packets behind
// their lengths (DogStatsD). The first four bytes tell them apart: as a length, four bytes of text announce over
// 150 MB, and a packet has at most 1 MiB.
type unixSplit struct {
	frames *frames
	lines  *lines   // shares the buffer of frames
	chosen splitter // nil: fewer than four bytes came
}

func newUnixSplit(in *intake, maxPacket, maxLine int) *unixSplit {
	f := newFrames(in, max(maxPacket, maxLine))
	return &unixSplit{frames: f, lines: &lines{in: in, maxLine: maxLine, buffer: f.buffer}}
}

func (u *unixSplit) space() []byte {
	if u.chosen != nil {
		return u.chosen.space()
	}
	return u.frames.space()
}

func (u *unixSplit) add(n int) error {
	if u.chosen != nil {
		return u.chosen.add(n)
	}
	n += u.frames.have
	if n < frameHeader {
		u.frames.have = n
		return nil
	}
	u.frames.have = 0
	u.chosen = u.frames
	if isText(u.frames.buffer[:frameHeader]) {
		u.chosen = u.lines
	}
	return u.chosen.add(n)
}

func (u *unixSplit) end(inOrder bool) {
	if u.chosen != nil {
		u.chosen.end(inOrder)
	}
	u.reset()
}

func (u *unixSplit) reset() {
	u.frames.reset()
	u.lines.reset()
	u.chosen = nil
}

// isText reports whether bytes hold no control character but those that part lines and words.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
