//! Values derived from passwords. RFC 7677's exchange is tested in the crate itself, where a nonce can be given.

use monedula_protocol::sasl::scram::ScramCredential;
use monedula_protocol::secret::Secret;

use super::support::HASHES;

#[test]
fn pbkdf2_is_that_of_known_answers() {
    // Computed with Python's hashlib.pbkdf2_hmac.
    let expected = [
        "c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a",
        "d197b1b33db0143e018b12f3d1d1479e6cdebdcc97c5c0f87f6902e072f457b5\
         143f30602641b3d55cd335988cb36b84376060ecd532e039b742a239434af2d5",
    ];
    for (hash, expected) in HASHES.into_iter().zip(expected) {
        let salted = hash.salted_password(b"password", b"salt", 4096);
        assert_eq!(salted.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    }
}

#[test]
fn a_salted_password_gives_the_credential_of_its_password() {
    for hash in HASHES {
        let password = Secret::from("tajemství");
        let salted = hash.salted_password(password.expose(), b"salt", 5000);
        let expected = ScramCredential::from_password(hash, &password, b"salt", 5000);
        assert_eq!(ScramCredential::from_salted(hash, &salted, b"salt", 5000), expected);
        assert_eq!(expected.stored_key.expose().len(), hash.output_bytes());
    }
}
