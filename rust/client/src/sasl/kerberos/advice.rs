//! Advice about failures of Kerberos.

use monedula_gssapi::Cause;

/// Advice about a broker that does not keep to RFC 4752.
pub(super) const OF_A_STRANGE_BROKER: &str =
    "The broker does not speak GSSAPI as Kafka does; check what is listening there";

/// Advice about `cause`, which depends on whether the settings have a keytab.
pub(super) fn of(cause: Cause, has_keytab: bool) -> &'static str {
    match cause {
        Cause::NoLibrary => {
            "Install it: libgssapi-krb5-2 on Debian and Ubuntu, krb5-libs on Red Hat, Fedora and Alpine; macOS has it. \
             MONEDULA_GSSAPI_LIBRARY names one that stands elsewhere. There is none for Windows"
        }
        Cause::NotSupported => {
            "MIT's library can, from version 1.11 on (MONEDULA_GSSAPI_LIBRARY names it); or get a ticket with kinit, and \
             leave keytab and ticket cache out of the settings"
        }
        Cause::NoTicket | Cause::Keytab | Cause::Expired if has_keytab => {
            "Check that the keytab exists, may be read, and has the key of sasl.kerberos.principal, with klist -kt FILE"
        }
        Cause::NoTicket => {
            "Get a ticket with kinit, and see that KRB5CCNAME names its cache in this process; or give sasl.kerberos.keytab \
             and sasl.kerberos.principal"
        }
        Cause::Expired => {
            "Get a new ticket with kinit; or give sasl.kerberos.keytab and sasl.kerberos.principal, with which the client gets \
             its tickets itself"
        }
        Cause::Keytab => "Check the keytab that KRB5_CLIENT_KTNAME names, with klist -kt FILE",
        Cause::ClockSkew => "Set the clocks of this machine, the KDC and the broker: they may differ by five minutes",
        Cause::UnknownService => {
            "Check sasl.kerberos.service.name, and that the KDC has the broker by the host name of bootstrap.servers and \
             advertised.listeners; dns_canonicalize_hostname and rdns in krb5.conf may change that name"
        }
        Cause::UnknownClient => "Check sasl.kerberos.principal with its realm",
        Cause::WrongKey => "The keytab does not have the principal's present key: have it exported again",
        Cause::Configuration => {
            "Check krb5.conf, or what KRB5_CONFIG names: default_realm, and the realm of the brokers in [domain_realm]"
        }
        Cause::Untrusted => {
            "Check that bootstrap.servers names the right cluster, and that the broker's keytab is up to date"
        }
        Cause::NoKdc | Cause::Other => "Try kinit, and kvno with the service and host, on this machine as this user",
    }
}
