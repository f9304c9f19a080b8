//! monedula for Python
