// Package credential finds out whom a credential names, and what that account was granted: bearer tokens by the cluster's API
// server (TokenReview), passwords by a file (bcrypt), client certificates by what they say. Rights beyond an account's own
// namespace are the API server's to grant (SubjectAccessReview), for accounts of all three sorts.
//
// Before it stands a receiver that took the credential out of a request; after it the API server, behind Authority. What
// an account may with its rights, identity decides (metric.Rights).
//
// The API server's answers are kept for at most 10 s, good and bad alike, so a token or a right that was taken away works no
// longer than that (Kubernetes' own servers keep them as long); comparisons with a password for 30 s, or until the file
// changes. Asking costs something: what is asked is bounded, in all and
// from one address, and who was good a moment ago does not wait behind who was not, for anybody can make up credentials.
//
// How a token is reviewed, and what a bound one says of its pod: https://kubernetes.io/docs/reference/access-authn-authz/authentication/
// and https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/.
//
// It never reads a request, and never keeps a credential: only hashes of it, under a key that is the process's own.
package credential
