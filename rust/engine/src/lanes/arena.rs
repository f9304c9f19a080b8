//! `Arena`: values in numbered places. A value that takes the place of an earlier one has another id.

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    place: u32,
    generation: u32,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Arena<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    pub(super) fn insert(&mut self, value: T) -> Id {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, value: None });
            self.places.len() as u32 - 1
        });
        let free = &mut self.places[place as usize];
        free.value = Some(value);
        Id { place, generation: free.generation }
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let place = self.places.get_mut(id.place as usize).filter(|place| place.generation == id.generation)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.place);
        Some(value)
    }

    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.places.get(id.place as usize).filter(|place| place.generation == id.generation)?.value.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.places.get_mut(id.place as usize).filter(|place| place.generation == id.generation)?.value.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(at, place)| {
            Some((Id { place: at as u32, generation: place.generation }, place.value.as_ref()?))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
