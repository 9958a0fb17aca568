package metric

// Line is a line of StatsD, cut into pieces but not parsed. Most lines differ from one that came before in their value only:
// those need no more than this to find their series. Its bytes are borrowed like a Sample's.
type Line struct {
	// Text is all of it, without its end.
	Text []byte
	// Head is what stands before the first ":", the name; Value what stands between that and the first "|"; Rest is what stands
	// behind it: type, rate, tags and so on.
	Head, Value, Rest []byte
	// Numeric says that Value is a decimal number without a sign: Whole and Fraction, as in a Sample.
	Numeric  bool
	Whole    int64
	Fraction float64
	// Dialect tells apart the grammars by which one text means different things.
	Dialect uint8
	// AboutExternal and Sender are what no line says, as in a Sample.
	DefaultExternal bool
	Sender          *Sender
}
