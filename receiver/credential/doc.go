// Package credential finds out whom a credential names, and what that account was granted: bearer tokens by the cluster's API
// server (TokenReview), passwords by a file (bcrypt), client certificates by what they say. Rights beyond an account's own
// namespace are the API server's to grant (SubjectAccessReview), for accounts of all three sorts.
//
// Before it stands a receiver that took the credential out of a request; after it the API server, behind Authority. What
// an account may with its rights, identity decides (metric.Rights).
//
// Answers are kept for at most 10 s, good and bad alike, so a token or a right that was taken away works no longer than
// that. (Kubernetes' own servers keep them as long.) Asking costs something: what is asked is bounded, in all and
// from one address, and who was good a moment ago does not wait behind who was not, for anybody can make up credentials.
//
// It never reads a request, and never keeps a credential: only hashes of it, under a key that is the process's own.
package credential
