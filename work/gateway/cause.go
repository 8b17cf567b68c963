package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"

	"remit/proof/reason"
)

// Why there was no answer is known here alone: the engine gets one status for
// all of it, and a user who mistyped an address or a port needs to know which.

// unanswered says why there is no answer, without the address that a network
// error repeats.
func (x *exchange) unanswered(err error) *refusal {
	cause := context.Cause(x.ctx)
	sent := !unconnected(err)
	x.rec.UsageKnown = !sent
	unavailable := func(message string) *refusal {
		return refuse(reason.ProviderUnavailable, http.StatusBadGateway, "%s", message)
	}
	switch {
	case errors.Is(cause, errIdle):
		return refuse(reason.Timeout, http.StatusGatewayTimeout, "the provider did not answer in time")
	case cause != nil:
		return refuse(reason.Cancelled, statusCancelled, "the request was given up before it was answered")
	case !sent:
		return unavailable("the provider could not be reached: " + unreached(err))
	}
	if why := untrusted(err); why != "" {
		x.rec.UsageKnown = true // nothing is sent before the handshake
		return unavailable(why)
	}
	return unavailable("the connection to the provider broke before it answered")
}

// unreached says why there is no connection, without the address.
func unreached(err error) string {
	op, _ := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	switch {
	case name:
		return "its name has no address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused, so that nothing listens at this address and port"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to its network"
	case errors.Is(err, os.ErrDeadlineExceeded), op != nil && op.Timeout():
		return "its address does not answer"
	case op != nil && op.Op == "proxyconnect":
		return "the proxy does not let it through"
	}
	return "the connection could not be made"
}

// untrusted says what is wrong with the provider's side of TLS, "" if nothing.
func untrusted(err error) string {
	_, verified := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case plain:
		return "the provider does not speak TLS at this address"
	case name:
		return "the provider's certificate is not trusted: it is for another name"
	case unknown:
		return "the provider's certificate is not trusted: no authority that this machine knows has signed it; --model-ca takes the certificate of the one that did"
	case ok && invalid.Reason == x509.Expired:
		return "the provider's certificate is not trusted: it has expired, or is not valid yet"
	case verified:
		return "the provider's certificate is not trusted"
	}
	return ""
}
