//! The five codecs, each under a hard output cap.
