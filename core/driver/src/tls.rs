//! Certificates: ours, for listeners, and those we trust towards the coordinator and the bus: the system's, and
//! `ca_file`'s.

use std::sync::Arc;

use appproxy_core::config::server::TlsFiles;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Makes ring the process's TLS provider. Without it the redis crate's TLS would panic on first use.
pub(crate) fn install_provider() {
    // An error only says that one is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// The trusted roots. An unreadable `ca_file` is an error naming it; a system without roots is not, as long as
/// there is a `ca_file`.
fn trusted(ca_file: Option<&str>) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut roots = rustls_native_certs::load_native_certs().certs;
    if let Some(path) = ca_file {
        let read = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| format!("ca_file {path}: {error}; it must be a readable PEM file"))?;
        if read.is_empty() {
            return Err(format!("ca_file {path}: no certificate in it; it must hold at least one in PEM form"));
        }
        roots.extend(read);
    }
    Ok(roots)
}

/// The certificates of `server.tls.cert_file`. The error names it.
fn chain(cert_file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("server.tls.cert_file {cert_file}: {error}; it must be a readable PEM file"))?;
    if chain.is_empty() {
        return Err(format!("server.tls.cert_file {cert_file}: no certificate in it; put the chain there in PEM form"));
    }
    Ok(chain)
}

fn private_key(key_file: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| format!("server.tls.key_file {key_file}: {error}; it must hold a private key in PEM form"))
}

/// What is wrong with the files of a listener, each with its key.
pub(crate) fn problems(files: &TlsFiles) -> Vec<(String, String)> {
    let parts = [("cert_file", chain(&files.cert_file).err()), ("key_file", private_key(&files.key_file).err())];
    let found = parts.into_iter().filter_map(|(key, wrong)| Some((key, wrong?)));
    let mut found: Vec<_> = found.map(|(key, wrong)| (format!("server.tls.{key}"), wrong)).collect();
    if found.is_empty()
        && let Err(wrong) = server_config(files)
    {
        found.push(("server.tls.cert_file".to_owned(), wrong));
    }
    found
}

/// The server side of TLS: versions 1.2 and 1.3. The error names the file.
pub(crate) fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
    let TlsFiles { cert_file, key_file } = files;
    let (chain, key) = (chain(cert_file)?, private_key(key_file)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| {
            format!(
                "server.tls: {cert_file} and {key_file} do not go together: {error}; give a certificate and its own key"
            )
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The client side of TLS for `https://`.
pub(crate) fn client_config(ca_file: Option<&str>) -> Result<ClientConfig, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(trusted(ca_file)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(store)
        .with_no_client_auth())
}

/// The same roots as one PEM text: the redis crate takes either the system's roots or such a text, and we want both.
pub(crate) fn roots_pem(ca_file: &str) -> Result<Vec<u8>, String> {
    use base64::Engine;
    let mut pem = String::new();
    for root in trusted(Some(ca_file))? {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        pem.push_str(&base64::engine::general_purpose::STANDARD.encode(root.as_ref()));
        pem.push_str("\n-----END CERTIFICATE-----\n");
    }
    Ok(pem.into_bytes())
}
