// Package identity answers which object a sample describes.
//
// The table asks it once for every line that it never saw before; before it stands the grammar that took the line
// apart, after it the table that files the series. Claims in the labels choose the object, and only the labels of
// the claim that decided leave the label set. Without a cluster claims are believed as they stand; nobody can say
// which pod an address belongs to, so a sample without a claim is external. It keeps no state and does no I/O.
package identity
