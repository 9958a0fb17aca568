package connlimit

// Bounds of what Go's TLS keeps of messages until they are whole, which may be a certificate of 256 KiB.
const (
	// MaxHandshake bounds the bytes of a handshake. That has chains of a few certificates.
	MaxHandshake = 32 << 10
	// MaxSilent bounds the bytes after it that no reader gets, where they are read by ReadAtOnce: two records and a half.
	MaxSilent  = 48 << 10
	ReadAtOnce = 16 << 10
)

// Silent counts the bytes below TLS that no reader of the connection got. The goroutine that reads uses it.
type Silent struct{ bytes int }

// Received counts bytes from the network, and reports whether there may be so many. shaken: the handshake is over.
func (s *Silent) Received(n int, shaken bool) bool {
	most := MaxHandshake
	if shaken {
		most = MaxSilent
	}
	s.bytes += n
	return s.bytes <= most
}

// Read says that a reader got some: all before it is over.
func (s *Silent) Read() { s.bytes = 0 }
