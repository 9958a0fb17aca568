// Package mutualtls secures connections whose two ends show certificates: between replicas, and of
// KEDA's operator; and those of agents, which show a token instead. It follows the configuration and
// precedes whoever listens or connects. Files that change are read again; it never asks anybody for a
// certificate.
package mutualtls
