//! monedula-engine
