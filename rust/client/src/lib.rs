//! monedula-client
